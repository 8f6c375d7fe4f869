"""Who answers the requests of a run: this process, or workers elsewhere. One file an entry.

A part of the loop is a program: it asks (``Request``) and is answered (``Answer``). An evaluator
runs programs. A request tells what can be evaluated apart, and how the parts are put together
again (``Request.parts``), so that an evaluator decides only where and in which order; the values
that the program sees do not depend on it.
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
    """Whether all is evaluated here and at once, so that a lane may fuse steps."""

    def run(self, program: Callable[..., Program[Result]], *arguments: Any) -> Result:
        """The result of a lane's program, which is called with a state or with nothing.

        The method and its arguments are given, not the generator: an evaluator whose workers
        follow the run starts the same program in each of them.
        """
        ...
