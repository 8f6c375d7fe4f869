"""Which result is the best, by one rule for all who ask, and what is to be said of it."""

from __future__ import annotations

from math import inf

from zotune.core.names import DIVERGED

ABOVE = "above its start"
"""Said of a run that has made it worse."""


def rank(status: str, loss: float | None, spent: float = 0) -> tuple[bool, float, float]:
    """The sort key of a result: the best is the lowest.

    The lowest final loss is the best, whether its trial had all of its budget or was stopped; of
    equal ones the one that spent less. A diverged one comes after all others.

    >>> results = [("exhausted", 2.0, 9), ("stopped early", 1.0, 4), ("diverged", 0.5, 3)]
    >>> sorted(results, key=lambda result: rank(*result))[0]
    ('stopped early', 1.0, 4)
    """
    return DIVERGED in status.split(", "), inf if loss is None else loss, spent


def remarks(
    loss: float | None, start: float | None, estimated_smoothness: float | None = None
) -> list[str]:
    """That a run ends above its start, and that its step is not the theory's.

    Args:
        loss: at its end.
        start: the loss before its first step.
        estimated_smoothness: the L that the step was divided by, if it was estimated.

    >>> remarks(2.0, 1.0, 0.44)
    ['above its start', 'L estimated (0.44)']
    """
    said = []
    if loss is not None and start is not None and loss > start:
        said.append(ABOVE)
    if estimated_smoothness is not None:
        said.append(f"L estimated ({estimated_smoothness:.3g})")
    return said
