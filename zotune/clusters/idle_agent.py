"""Replacement for the dashboard agent of a Ray without a dashboard; run as a script.

A starting node waits for its agent, and Ray's own agent imports Ray only to report that it serves
nothing. This script reports the same with the standard library only, and runs as long as the node.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
NOBODY = "-1"
POLL = 0.5


def serve_nothing(session: Path, node: str) -> None:
    """Write the port files, which say that no port is served, atomically."""
    for name in PORTS:
        file = session / f"{name}_{node}"
        part = session / f".{file.name}"
        part.write_text(NOBODY, encoding="ascii")
        part.replace(file)


def main(flags: list[str]) -> None:
    """Run with the flags of Ray's own agent until the parent has died."""
    parent = os.getppid()
    told = dict(flag.partition("=")[::2] for flag in flags)
    serve_nothing(Path(told["--session-dir"]), told["--node-id"])
    while os.getppid() == parent:
        time.sleep(POLL)


if __name__ == "__main__":
    main(sys.argv[1:])
