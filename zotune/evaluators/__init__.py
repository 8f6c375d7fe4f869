"""Evaluators answer the requests of a run, in this process or by Ray workers.

The steps of the loop are programs: generators that yield a ``Request`` and are sent an ``Answer``.
An evaluator runs programs. A request says how it can be split and how the results are joined
(``Request.parts``), so the evaluator only decides where and in which order parts are evaluated; the
values do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from zotune.evaluators.serial import SERIAL, Serial
from zotune.iterates import Program, Result

__all__ = ["SERIAL", "Evaluator", "Serial"]


class Evaluator(Protocol):
    """Runs the programs of a loop."""

    in_process: bool
    """Whether everything is evaluated synchronously in this process; lanes may then fuse steps."""
    repeated: int
    """Number of charged evaluations that were made again, and are not charged twice."""

    def run(self, program: Callable[..., Program[Result]], *arguments: Any) -> Result:
        """Run a lane's program, called with a state or without arguments; return its result.

        Takes the method and its arguments, not the generator, so that workers that follow the run
        can start the same program.
        """
        ...
