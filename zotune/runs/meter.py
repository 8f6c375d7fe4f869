"""Count the calls of a person's function in a file, which outlives a killed process."""

from __future__ import annotations

from mmap import mmap
from pathlib import Path
from typing import Any

from zotune.core.state import State
from zotune.loop import Loop

SIZE = 8
"""Bytes of the number in the file."""


class Meter:
    """The number of calls of a function since its run began, over all processes that continued it.

    The number is mapped from a file beside the checkpoint, which the system keeps if the process is
    killed. What was called and is not in the checkpoint has to be repeated.

    Args:
        loop: the loop of the run.
        checkpoint: its checkpoint.
    """

    def __init__(self, loop: Loop, checkpoint: Path) -> None:
        self._loop = loop
        self._path = checkpoint.with_name(f"{checkpoint.name}.calls")
        self.is_old = self._path.is_file() and self._path.stat().st_size == SIZE
        """Whether an earlier process has left its count, because it was killed."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("r+b" if self.is_old else "w+b") as file:
            file.truncate(SIZE)
            self._number = mmap(file.fileno(), SIZE)
        self._caller.on_calls = self.add

    @property
    def _caller(self) -> Any:
        """What calls the function: the objective in this process, or what asks workers."""
        evaluator = self._loop.lanes[0].evaluator
        return self._loop.objective if evaluator.in_process else evaluator

    @property
    def total(self) -> int:
        """The number of calls."""
        return int.from_bytes(self._number[:], "little")

    def add(self, calls: int) -> None:
        """Count calls that are about to be made."""
        self.set(self.total + calls)

    def set(self, calls: int) -> None:
        """Begin with another number."""
        self._number[:] = calls.to_bytes(SIZE, "little")

    def begin(self, state: State | None, repeated: int) -> None:
        """Begin a run, or continue one from a saved state; ``repeated`` was saved with it."""
        if state is None or not self.is_old:
            self.set(0 if state is None else _calls(self._loop, state) + repeated)
        if state is not None:
            self.tell(state)

    def tell(self, state: State) -> None:
        """Tell the loop how many calls are not among those of this state."""
        beside = self.total - _calls(self._loop, state) - self._loop.lanes[0].evaluator.repeated
        self._loop.repeated_before = max(0, beside)

    def close(self) -> None:
        """Remove the file: the checkpoint has the number."""
        self._caller.on_calls = None
        self._number.close()
        self._path.unlink(missing_ok=True)


def _calls(loop: Loop, state: State) -> int:
    """The charged evaluations of all replicates."""
    lanes = zip(loop.lanes, state.lanes, strict=True)
    return sum(one.ledger.evaluations * lane.config.replicates for lane, one in lanes)
