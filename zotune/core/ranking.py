"""The one rule for the best result, used by all commands and reports, and remarks on results."""

from __future__ import annotations

from math import inf

from zotune.core.aim import Aim
from zotune.core.names import DIVERGED

LOSS = Aim()
"""What decides unless the user has named another metric."""
ABOVE = "above its start"
"""Remark on a run whose final loss is above its start."""
AT_START = "stuck at its start (a saddle?)"
"""Remark on a run whose final loss is exactly that of its start, where differences may vanish."""


def rank(
    status: str, value: float | None, spent: float = 0, aim: Aim = LOSS
) -> tuple[bool, float, float]:
    """The sort key of a result; the lowest is the best.

    The lowest final loss is the best, whether its trial has spent its budget or was stopped; for
    another aim, its lowest or highest value. Among equal ones, the least spent budget is the best.
    Diverged results come after all others.

    >>> results = [("exhausted", 2.0, 9), ("stopped early", 1.0, 4), ("diverged", 0.5, 3)]
    >>> sorted(results, key=lambda result: rank(*result))[0]
    ('stopped early', 1.0, 4)
    """
    cost = aim.cost(value)
    return DIVERGED in status.split(", "), inf if cost is None else cost, spent


def remarks(
    loss: float | None, start: float | None, estimated_smoothness: float | None = None
) -> list[str]:
    """Remarks on a result: it ends above its start or exactly at it, or its L was estimated.

    Args:
        loss: the final loss.
        start: the loss before the first step.
        estimated_smoothness: the L of the step, if it was estimated.

    >>> remarks(2.0, 1.0, 0.44)
    ['above its start', 'L estimated (0.44)']
    """
    said = []
    if loss is not None and start is not None and loss > start:
        said.append(ABOVE)
    if loss is not None and loss == start:
        said.append(AT_START)
    if estimated_smoothness is not None:
        said.append(f"L estimated ({estimated_smoothness:.3g})")
    return said
