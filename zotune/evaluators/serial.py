"""The evaluator for this process: evaluates whole requests at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zotune.iterates import Answer, Program, Request, Result


def run(program: Program[Result], answer: Callable[[Request], Answer]) -> Result:
    """Run a program to its end, with ``answer`` for its requests; return its result."""
    given: Answer | None = None
    while True:
        try:
            request = next(program) if given is None else program.send(given)
        except StopIteration as end:
            result: Result = end.value
            return result
        given = answer(request)


class Serial:
    """Evaluates every request here."""

    in_process = True
    repeated = 0

    def run(self, program: Callable[..., Program[Result]], *arguments: Any) -> Result:
        """Run a program; return its result."""
        return run(program(*arguments), lambda request: request.evaluate())


SERIAL = Serial()
