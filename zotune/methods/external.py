"""Other people's solvers as generators: a solver that calls its function, in a thread of its own.

The solver's thread does nothing but the solver's arithmetic. Its function hands points over and
waits; they are evaluated by whoever drives the run, and the values are handed back. So a function
is never called from another thread, and budget, workers and resume are those of any method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from zotune.methods.start import Points, Stage, Start, Vector


class Closed(BaseException):
    """Raised in the solver's thread if its run has ended; solvers may catch an ``Exception``."""


class Calls:
    """The function that a solver calls: known points are answered at once, others are asked for.

    Args:
        start: the start of the run, whose value is known.
        requests: where points are handed over.
        answers: where values come back; None: the run has ended.
    """

    def __init__(
        self, start: Start, requests: SimpleQueue[Any], answers: SimpleQueue[Vector | None]
    ) -> None:
        self._requests, self._answers = requests, answers
        self._known = {start.x.tobytes(): start.value}

    def __call__(self, x: Vector) -> float:
        """f at one point."""
        return float(self.many([x])[0])

    def many(self, points: Sequence[Vector]) -> Vector:
        """f at several points, asked for together; no point is asked for twice."""
        rows = [np.ascontiguousarray(point, dtype=np.float64) for point in points]
        new = list(
            {row.tobytes(): row for row in rows if row.tobytes() not in self._known}.values()
        )
        if new:
            self._requests.put(np.stack(new))
            values = self._answers.get()
            if values is None:
                raise Closed
            self._known |= {row.tobytes(): float(v) for row, v in zip(new, values, strict=True)}
        return np.array([self._known[row.tobytes()] for row in rows])

    def map(self, function: Callable[[Any], Any], points: Iterable[Any]) -> list[Any]:
        """A map that evaluates all points together first: ``workers=`` of SciPy's solvers."""
        listed = list(points)
        self.many(listed)
        return [function(point) for point in listed]


def solved(solve: Callable[[Calls], str], start: Start) -> Stage[str]:
    """Run a solver that calls its function; its calls become requests.

    Args:
        solve: runs the solver on the function that it is given; returns why it ended.
        start: the start of the run.
    """
    requests: SimpleQueue[Points | str | BaseException] = SimpleQueue()
    answers: SimpleQueue[Vector | None] = SimpleQueue()

    def run() -> None:
        try:
            requests.put(solve(Calls(start, requests, answers)))
        except Closed:
            return
        except BaseException as error:  # handed to the run, which raises it
            requests.put(error)

    thread = Thread(target=run, name="zotune-solver", daemon=True)
    thread.start()
    try:
        while isinstance(request := requests.get(), np.ndarray):
            answers.put((yield request))
        if isinstance(request, BaseException):
            raise request
        return str(request)
    finally:
        answers.put(None)
        thread.join()
