"""What every stage of the descent shares: the budget, the best point, and the box."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Points = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
T = TypeVar("T")
Stage = Generator[Points, Vector, T]
"""Yields points (n, d), is sent their values (n,), and returns a T."""


class Spent(Exception):
    """The budget does not cover what a stage wants to evaluate."""


class Oracle:
    """Counts evaluations, keeps the best point, and keeps points inside the box."""

    def __init__(self, x0: Vector, budget: int, bounds: tuple[Vector, Vector] | None) -> None:
        dim = len(x0)
        self.dim, self.budget, self.left = dim, budget, budget
        low, high = bounds or (np.full(dim, -np.inf), np.full(dim, np.inf))
        self.low: Vector = low
        self.high: Vector = high
        self.best, self.best_x = np.inf, x0
        self.noise = 0.0
        """Standard deviation of f at one point, as far as it is known."""
        self.is_noisy = False

    def inside(self, x: Points) -> Points:
        """The projection onto the box."""
        clipped: Points = np.clip(x, self.low, self.high)
        return clipped

    def values(self, points: Points) -> Stage[Vector]:
        """f at each row; inf where it is not a number. Raises Spent if there are too many."""
        if len(points) == 0:
            return np.zeros(0)
        if len(points) > self.left:
            raise Spent
        self.left -= len(points)
        told = np.asarray((yield points), dtype=np.float64)
        values: Vector = np.where(np.isfinite(told), told, np.inf)
        at = int(values.argmin())
        if values[at] < self.best:
            self.best, self.best_x = float(values[at]), points[at].copy()
        return values

    def value(self, x: Vector) -> Stage[float]:
        """f at one point."""
        values = yield from self.values(x[None])
        return float(values[0])

    def rounding(self, f: float) -> float:
        """The error of a value of f: measured noise, or a few units in the last place."""
        return max(self.noise, 8 * np.finfo(float).eps * abs(f), 1e-300)
