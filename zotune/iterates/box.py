"""Bounds of a vector. Every point that is evaluated lies inside them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Box:
    """Lower and upper bounds, rounded inwards to the dtype of the vector.

    Args:
        low: the lower bounds, (d,); −inf for none.
        high: the upper bounds.
        dtype: dtype of the vector.
        device: device of the vector.
    """

    def __init__(self, low: Any, high: Any, dtype: torch.dtype, device: torch.device) -> None:
        self.low = _rounded(torch.tensor(low, dtype=torch.float64), dtype, up=True).to(device)
        self.high = _rounded(torch.tensor(high, dtype=torch.float64), dtype, up=False).to(device)

    def clamp(self, points: Tensor) -> Tensor:
        """The projection of the points onto the box."""
        return points.clamp(self.low, self.high)

    def clamp_(self, points: Tensor) -> Tensor:
        """The same in place."""
        return points.clamp_(self.low, self.high)

    def reflect_(self, points: Tensor) -> Tensor:
        """Mirror points at the bounds, in place; project those that are still outside."""
        torch.where(points < self.low, 2 * self.low - points, points, out=points)
        torch.where(points > self.high, 2 * self.high - points, points, out=points)
        return self.clamp_(points)

    def holds(self, x: Tensor) -> Tensor:
        """Which coordinates are at a bound."""
        return (x <= self.low) | (x >= self.high)

    def without_outward(self, x: Tensor, along: Tensor) -> Tensor:
        """The vector ``along`` for x − along, with 0 where x is at a bound and would leave it."""
        leaves = ((x <= self.low) & (along > 0)) | ((x >= self.high) & (along < 0))
        return along.masked_fill(leaves, 0)

    def around(self, x: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
        """A point near x and its distance to the bounds on either side, at most ``reach``."""
        free = torch.minimum(reach, (self.high - self.low) / 2)
        return torch.minimum(torch.maximum(x, self.low + free), self.high - free), free


def _rounded(bounds: Tensor, dtype: torch.dtype, *, up: bool) -> Tensor:
    """Bounds converted to another dtype, rounded inwards."""
    near = bounds.to(dtype)
    away = torch.full_like(near, torch.inf if up else -torch.inf)
    outside = near.double() < bounds if up else near.double() > bounds
    return torch.where(outside, torch.nextafter(near, away), near)
