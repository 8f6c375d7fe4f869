"""The oracle, which all stages of the descent share: the budget, the best point, and the bounds."""

from __future__ import annotations

import numpy as np

from zotune.methods.start import Indices, Mask, Points, Stage, Start, Vector

__all__ = ["Indices", "Mask", "Oracle", "Points", "Spent", "Stage", "Vector"]

REPEATS = 9
"""Maximum number of evaluations of a point until two values agree."""
FEW, OUTLYING = 4, 3.0
"""All values of blocks with fewer points may be outliers; else those that many deviations away."""


class Spent(Exception):
    """Raised if the budget does not cover the points of a stage."""


class Oracle:
    """Counts evaluations, keeps the best point, and keeps points inside the box."""

    def __init__(self, start: Start) -> None:
        self.dim, self.budget, self.left = start.dim, start.budget, start.left
        self.low, self.high = start.low, start.high
        self.best, self.best_x = start.value, start.x
        self.noise = 0.0
        """Estimated standard deviation of f at one point."""
        self._all_single = bool(np.float32(start.value) == start.value)
        self._told = start.budget - start.left
        self.is_noisy = False
        """Whether values at one point were found to differ."""
        self.answer: tuple[Vector, float] | None = None
        """The answer for a noisy function and its estimated value, not the lowest noisy value."""
        self.repeats = False
        """Whether values must be confirmed by a second evaluation (for rare outliers)."""
        start.incumbent = self._incumbent

    def _incumbent(self) -> tuple[Vector, float]:
        return (self.best_x, self.best) if self.answer is None else self.answer

    @property
    def is_single(self) -> bool:
        """Whether all values so far are float32 numbers, as if rounded to single precision."""
        return self._all_single and self._told > FEW

    def inside(self, x: Points) -> Points:
        """The projection onto the box."""
        clipped: Points = np.clip(x, self.low, self.high)
        return clipped

    def values(self, points: Points) -> Stage[Vector]:
        """f at each row; inf if it is NaN. Raises ``Spent`` if the budget does not cover them."""
        if len(points) == 0:
            return np.zeros(0)
        values = yield from (self._repeated(points) if self.repeats else self.once(points))
        at = int(values.argmin())
        if values[at] < self.best:
            self.best, self.best_x = float(values[at]), points[at].copy()
        return values

    def once(self, points: Points) -> Stage[Vector]:
        """The same, with each row evaluated once and the best point not updated."""
        if len(points) > self.left:
            raise Spent
        self.left -= len(points)
        told = np.asarray((yield points), dtype=np.float64)
        values = np.where(np.isfinite(told), told, np.inf)
        self._all_single = self._all_single and bool((values.astype(np.float32) == values).all())
        self._told += len(values)
        return values

    def _repeated(self, points: Points) -> Stage[Vector]:
        """Values with doubtful ones confirmed by a second evaluation."""
        told = yield from self.once(points)
        seen = [[value] for value in told]
        open_ = np.flatnonzero(doubtful(told, self.best)).tolist()
        for _ in range(REPEATS - 1):
            if not open_:
                break
            for at, value in zip(open_, (yield from self.once(points[open_])), strict=True):
                seen[at].append(value)
            open_ = [at for at in open_ if len(set(seen[at])) == len(seen[at])]
        return np.array([agreed(values) for values in seen])

    def value(self, x: Vector) -> Stage[float]:
        """f at one point."""
        values = yield from self.values(x[None])
        return float(values[0])

    def rounding(self, f: float) -> float:
        """The error of a value of f: the measured noise, or a few units in the last place."""
        return max(self.noise, 8 * np.finfo(float).eps * abs(f), 1e-300)


def agreed(values: list[float]) -> float:
    """The value that occurred more than once; the median if all are different.

    >>> agreed([3.0, 8.0, 3.0]), agreed([1.0, 5.0, 2.0])
    (3.0, 2.0)
    """
    again = [value for value in values if values.count(value) > 1]
    return float(again[0]) if again else float(np.median(values))


def doubtful(values: Vector, best: float) -> Mask:
    """Which values of a block may be outliers: the best so far, and those far from the others."""
    if len(values) < FEW:
        return np.ones(len(values), dtype=bool)
    known = values[np.isfinite(values)]
    if not len(known):
        return np.ones(len(values), dtype=bool)
    off = np.abs(values - np.median(known))
    usual = np.median(np.abs(known - np.median(known)))
    found: Mask = (values < best) | ~(off <= OUTLYING * usual)
    return found
