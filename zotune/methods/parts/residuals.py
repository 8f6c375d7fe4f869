"""The linear model of residuals around a point, and the sizes of coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zotune.core.merit import merit
from zotune.methods.start import Matrix, Start, Vector

DECADES, LEAST = 1e4, 0.1
"""Sizes that differ by less than this factor are at least this share of the largest."""


@dataclass
class Model:
    """Residuals at a point and their derivatives."""

    x: Vector
    r: Vector
    value: float
    jacobian: Matrix
    is_fresh: bool = False
    """Whether the derivatives were measured at x, not updated since."""

    def predicted(self, p: Vector) -> float:
        """The decrease of Σ r² that the derivatives predict for a step."""
        return self.value - float(merit(self.r + self.jacobian @ p))

    def learn(self, p: Vector, r: Vector, scale: Vector) -> None:
        """Broyden's update: the smallest change of J, in units of the scale, that explains r."""
        weighted = scale * scale * p
        error = r - self.r - self.jacobian @ p
        self.jacobian = self.jacobian + np.outer(error, weighted / float(weighted @ p))
        self.is_fresh = False

    def shorter(self, p: Vector, value: float) -> float:
        """The share of a step at the minimum of the parabola through both values."""
        slope = 2 * float(self.r @ (self.jacobian @ p))
        bend = value - self.value - slope
        return float(np.clip(-slope / (2 * bend), 0.1, 0.5)) if bend > 0 else 0.5


def sizes(start: Start) -> Vector:
    """How far each coordinate may be expected to move.

    Coordinates of about one size, such as logarithms, may come close to zero by chance; those over
    many decades are in units of their own, and move by a share of themselves.
    """
    size = np.where(start.x == 0, start.reach, np.abs(start.x))
    if start.scale is not None:
        size = start.reach
    elif size.max() < DECADES * size.min():
        size = np.maximum(size, LEAST * size.max())
    found: Vector = np.minimum(size, start.high - start.low)
    return found
