"""The points that a ``Minimizer`` asks for: what every front of it has to give, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import zotune

BUDGET = 40
LOW, HIGH = [-2.0, -1.0], [2.0, 3.0]


def valley(x: float, y: float) -> float:
    """Rosenbrock's function."""
    return 100 * (y - x * x) ** 2 + (1 - x) ** 2


def asked_points(
    start: Sequence[float] = (0.0, 1.0), budget: int = BUDGET, **settings: Any
) -> list[list[float]]:
    """The points in the valley, within the bounds."""
    m = zotune.Minimizer(list(start), budget=budget, bounds=(LOW, HIGH), **settings)
    found = []
    while not m.done:
        asked = np.asarray(m.ask())
        found += asked.tolist()
        m.tell([valley(*x) for x in asked])
    return found
