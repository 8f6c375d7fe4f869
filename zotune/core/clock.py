"""Wall time of a run, for the time axis of its curve.

Wall time does not influence the computation: two runs of one configuration differ in nothing else.
Curves have it only if it is measured by ``timed``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

SECONDS = "seconds"
"""The metric of rows and curve points."""
_ELAPSED: ContextVar[Callable[[], float] | None] = ContextVar("zotune_elapsed", default=None)


@contextmanager
def timed(before: float = 0.0) -> Iterator[Callable[[], float]]:
    """Measure wall time for curve points, in addition to the ``before`` seconds of earlier parts.

    >>> with timed(before=60.0) as elapsed:
    ...     60.0 <= elapsed() < 120.0, seconds() is not None
    (True, True)
    >>> seconds() is None
    True
    """
    began = monotonic()

    def elapsed() -> float:
        return before + monotonic() - began

    token = _ELAPSED.set(elapsed)
    try:
        yield elapsed
    finally:
        _ELAPSED.reset(token)


def seconds() -> float | None:
    """Seconds since the start of the run; None if time is not measured."""
    elapsed = _ELAPSED.get()
    return None if elapsed is None else round(elapsed(), 3)
