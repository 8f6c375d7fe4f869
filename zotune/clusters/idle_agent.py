"""Stands in for the dashboard's agent of a Ray without a dashboard; run as a script.

Ray's own agent imports Ray to say that nothing is served, and a starting node waits for that. This
file needs nothing but the standard library. It says the same, and lives as long as the node does.
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
    """Write down that nobody listens at any of the ports, each file whole."""
    for name in PORTS:
        file = session / f"{name}_{node}"
        part = session / f".{file.name}"
        part.write_text(NOBODY, encoding="ascii")
        part.replace(file)


def main(flags: list[str]) -> None:
    """Do what the flags of Ray's own agent say, until the parent has died."""
    parent = os.getppid()
    told = dict(flag.partition("=")[::2] for flag in flags)
    serve_nothing(Path(told["--session-dir"]), told["--node-id"])
    while os.getppid() == parent:
        time.sleep(POLL)


if __name__ == "__main__":
    main(sys.argv[1:])
