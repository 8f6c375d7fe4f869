"""Count the calls of a function in files that survive the process, however it ends.

The account of a launch knows what trials have reported. What a killed worker had evaluated since
its last report is known from here alone.
"""

from __future__ import annotations

import mmap
import os
import socket
from pathlib import Path

SIZE = 8
"""Bytes of a file: one number."""


class CallCount:
    """The number of calls that this process has made for one trial, kept in a file.

    Args:
        folder: the folder of all counts of a launch.
        trial: the id of the trial.
    """

    def __init__(self, folder: Path, trial: str) -> None:
        self._place = folder, trial
        file = folder / trial / f"{socket.gethostname()}-{os.getpid()}"
        file.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(opened, SIZE)
            self._number = memoryview(mmap.mmap(opened, SIZE)).cast("Q")
        finally:
            os.close(opened)

    def __reduce__(self) -> tuple[type[CallCount], tuple[Path, str]]:
        """Another process that gets it counts in a file of its own."""
        return CallCount, self._place

    def __call__(self, many: int = 1) -> None:
        """Count calls that are about to be made."""
        self._number[0] += many


def calls_of(folder: Path, trial: str) -> int:
    """The number of calls of a trial, by all processes that have worked on it; 0 if not counted."""
    place = folder / trial
    numbers = (file.read_bytes() for file in place.iterdir()) if place.is_dir() else ()
    return sum(int.from_bytes(number[:SIZE], "little") for number in numbers)


def calls_in(folder: Path) -> dict[str, int]:
    """The number of calls of each trial."""
    trials = sorted(place.name for place in folder.iterdir()) if folder.is_dir() else ()
    return {trial: calls_of(folder, trial) for trial in trials}
