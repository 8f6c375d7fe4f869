"""Count evaluations, stop exactly at the budget, and keep the best point."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Function = Callable[[Vector], float]


class BudgetSpent(Exception):
    """Raised in place of the evaluation that would exceed the budget."""


class Counter:
    """A function that counts its calls and refuses more than ``budget`` of them.

    ``history`` holds (evaluations, value) of every improvement.

    >>> f = Counter(lambda x: float(x @ x), budget=2)
    >>> f([2.0]), f([1.0]), f.best, f.history
    (4.0, 1.0, 1.0, [(1, 4.0), (2, 1.0)])
    >>> f([0.0])
    Traceback (most recent call last):
    zotune.bench.blackbox.counting.BudgetSpent: 2 evaluations
    """

    def __init__(self, function: Function, budget: int) -> None:
        self.function = function
        self.budget = budget
        self.evaluations = 0
        self.best = inf
        self.best_x: Vector | None = None
        self.history: list[tuple[int, float]] = []

    def __call__(self, x: Any) -> float:
        """f(x), if the budget allows it."""
        if self.evaluations >= self.budget:
            raise BudgetSpent(f"{self.budget} evaluations")
        self.evaluations += 1
        point = np.array(x, dtype=np.float64)
        value = float(self.function(point))
        if isfinite(value) and value < self.best:
            self.best, self.best_x = value, point
            self.history.append((self.evaluations, value))
        return value
