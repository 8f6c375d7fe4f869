"""Processes that a test started, and all that those have started, found by their environment."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

MARK = "ZOTUNE_TEST_MARK"


def new_mark() -> dict[str, str]:
    """For the environment of one process; its descendants inherit it."""
    return {MARK: secrets.token_hex(16)}


def marked(mark: dict[str, str]) -> list[int]:
    """Living processes with the mark; one that has ended and is not reaped yet has none."""
    wanted, found = f"{MARK}={mark[MARK]}".encode(), []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return [pid for pid in found if pid != os.getpid()]
