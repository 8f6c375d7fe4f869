"""Wall time of a run, for its curve: what was spent is one axis, how long it took the other.

Seconds are no part of what a run computes: a run that is resumed, or run again, differs in nothing
else. Curves carry them where somebody measures.
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
    """Let curve points carry the seconds since here, with those of earlier sessions.

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
    """Seconds of the run by now; None where nobody measures."""
    elapsed = _ELAPSED.get()
    return None if elapsed is None else round(elapsed(), 3)
