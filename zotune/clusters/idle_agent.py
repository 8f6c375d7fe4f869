"""Replacement for the dashboard agent of a Ray without a dashboard; run as a script.

A starting node waits for its agent, and Ray's own agent imports Ray only to report that it serves
nothing. This script reports the same with the standard library only, and runs as long as the node.
When the node has been killed, it ends the node's other processes: Ray's runtime environment agent
would wait for a minute for a server that is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
NOBODY = "-1"
POLL = 0.5
LOOKS = 4
"""Polls of the parent for each look at its children."""


def serve_nothing(session: Path, node: str) -> None:
    """Write the port files, which say that no port is served, atomically."""
    for name in PORTS:
        file = session / f"{name}_{node}"
        part = session / f".{file.name}"
        part.write_text(NOBODY, encoding="ascii")
        part.replace(file)


def stat(process: int) -> tuple[int, str]:
    """The parent of a process, and when it began: numbers of processes are used again."""
    fields = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return int(fields[1]), fields[19]


def children_of(parent: int) -> dict[int, str]:
    """The children of a process but ourselves, and when they began."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        process = int(folder.name)
        with suppress(OSError):
            its_parent, began = stat(process)
            if its_parent == parent and process != os.getpid():
                found[process] = began
    return found


def end(processes: dict[int, str]) -> None:
    """Kill those of the processes that are still there."""
    for process, began in processes.items():
        with suppress(OSError):
            if stat(process)[1] == began:
                os.kill(process, signal.SIGKILL)


def main(flags: list[str]) -> None:
    """Run with the flags of Ray's own agent until the parent has died."""
    parent = os.getppid()
    told = dict(flag.partition("=")[::2] for flag in flags)
    serve_nothing(Path(told["--session-dir"]), told["--node-id"])
    others: dict[int, str] = {}
    looks = 0
    while os.getppid() == parent:
        if looks % LOOKS == 0:
            others = children_of(parent) or others  # a parent that has just died has none
        looks += 1
        time.sleep(POLL)
    end(others)


if __name__ == "__main__":
    main(sys.argv[1:])
