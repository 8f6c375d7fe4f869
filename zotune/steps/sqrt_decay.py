"""A step that falls with the root of the step's index."""

from __future__ import annotations

from math import sqrt

from zotune.steps import register


@register("sqrt-decay", formula="eta / √(t + 1)")
def sqrt_decay(eta: float, t: int, best: float, usual: float) -> float:
    """For stochastic functions: the classical step of stochastic gradient descent."""
    return eta * (best / usual) / sqrt(t + 1)
