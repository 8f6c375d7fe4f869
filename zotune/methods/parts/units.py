"""Rescale coordinates if their bounds have very different widths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zotune.methods.start import Points, Stage, Start, T, Vector

NARROW = 10.0
"""Coordinates are rescaled if the expected move of one is this many times the width of its bounds.
Below that the descent adapts by itself."""


@dataclass(frozen=True)
class Units:
    """Coordinates relative to the start, each with its own unit.

    A simulator may have a thickness in metres and a pressure in pascals: a distance that is small
    for the one is far outside the bounds of the other.
    """

    origin: Vector
    size: Vector
    """The width of the bounds, or the expected move if that is less."""
    low: Vector
    high: Vector

    @classmethod
    def of(cls, x: Vector, bounds: tuple[Vector, Vector] | None) -> Units | None:
        """Units for a start in a box; None if all bounds are wide, or equally narrow."""
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
        """Points converted to the user's units, exactly within the bounds."""
        found: Points = np.clip(self.origin + self.size * points, self.low, self.high)
        return found


def in_units(search: Callable[[Start], Stage[T]], start: Start) -> Stage[T]:
    """Run a generator in units of the bounds if their widths differ much, else as it is."""
    units = Units.of(start.x, start.bounds) if start.scale is None else None
    if units is None:
        return (yield from search(start))
    inner = start.at(x=np.zeros_like(start.x), bounds=units.box)
    start.incumbent = lambda: _outside(inner, units)
    stage = search(inner)
    values: Vector | None = None
    while True:
        try:
            points = next(stage) if values is None else stage.send(values)
        except StopIteration as end:
            result: T = end.value
            return result
        values = yield units.outside(points)


def _outside(inner: Start, units: Units) -> tuple[Vector, float]:
    """The answer of a start in units, in the user's."""
    x, value = (inner.x, inner.value) if inner.incumbent is None else inner.incumbent()
    return units.outside(x), value
