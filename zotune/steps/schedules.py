"""Schedules: how the step shrinks with spent budget."""

from __future__ import annotations

from math import cos, pi

LEVEL, LINEAR, COSINE = "constant", "linear", "cosine"
SCHEDULES = {
    LEVEL: "1",
    LINEAR: "1 − spent/budget",
    COSINE: "(1 + cos(π spent/budget)) / 2",
}


def schedule_factor(name: str, warmup: float, share: float, after: float) -> float:
    """The factor of a schedule for the step size.

    Args:
        name: constant, linear or cosine.
        warmup: the share of the budget over which the factor first rises to 1; it uses the budget
            spent after the step, so that the first step is not 0.
        share: spent / budget before the step.
        after: the same after it.

    >>> tenths = [k / 10 for k in range(11)]
    >>> [schedule_factor("linear", 0.2, tenths[k], tenths[k + 1]) for k in (0, 1, 2, 6)]
    [0.5, 1.0, 1.0, 0.5]
    """
    if share < warmup:
        return min(1.0, after / warmup)
    done = (share - warmup) / (1 - warmup)
    if name == LINEAR:
        return 1 - done
    return (1 + cos(pi * done)) / 2 if name == COSINE else 1.0
