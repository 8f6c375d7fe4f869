"""Units of coordinates: where bounds leave some of them little room, each has its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zotune.descent.oracle import Points, Vector

NARROW = 10.0
"""How many times a coordinate's room must go into the distance that it would be expected to move,
for coordinates to have units of their own. Below it the descent finds out by itself."""


@dataclass(frozen=True)
class Units:
    """Coordinates counted from the start, each in a unit of its own.

    A simulator's parameters are a thickness in metres and a pressure in pascals: what is a small
    distance for the one is far beyond the bounds of the other.
    """

    origin: Vector
    size: Vector
    """The width of the bounds, or what the descent expects without them where that is less."""
    low: Vector
    high: Vector

    @classmethod
    def of(cls, x: Vector, bounds: tuple[Vector, Vector] | None) -> Units | None:
        """Units for a start in a box; None where all have room enough, or equally little."""
        if bounds is None:
            return None
        low, high = bounds
        origin = np.clip(x, low, high)
        expected = np.maximum(np.abs(origin), 1.0)
        size = np.minimum(high - low, expected)
        if (NARROW * (high - low) > expected).all() or size.max() < NARROW * size.min():
            return None
        return cls(origin, size, low, high)

    @property
    def box(self) -> tuple[Vector, Vector]:
        """The bounds in these units."""
        return (self.low - self.origin) / self.size, (self.high - self.origin) / self.size

    def outside(self, points: Points) -> Points:
        """Points in the user's units, within the bounds to the last digit."""
        found: Points = np.clip(self.origin + self.size * points, self.low, self.high)
        return found
