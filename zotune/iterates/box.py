"""Bounds of a vector: every point that is evaluated lies between them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Box:
    """Lower and upper bounds, in the numbers of the vector: rounded inwards where they differ.

    Args:
        low: the lower bounds, (d,); −inf for none.
        high: the upper bounds.
        dtype: of the vector.
        device: where it lives.
    """

    def __init__(self, low: Any, high: Any, dtype: torch.dtype, device: torch.device) -> None:
        self.low = _rounded(torch.tensor(low, dtype=torch.float64), dtype, up=True).to(device)
        self.high = _rounded(torch.tensor(high, dtype=torch.float64), dtype, up=False).to(device)

    def clamp(self, points: Tensor) -> Tensor:
        """The nearest points inside."""
        return points.clamp(self.low, self.high)

    def clamp_(self, points: Tensor) -> Tensor:
        """The same in place."""
        return points.clamp_(self.low, self.high)

    def reflect_(self, points: Tensor) -> Tensor:
        """Points mirrored at the bounds, in place; the nearest inside where that is not enough."""
        torch.where(points < self.low, 2 * self.low - points, points, out=points)
        torch.where(points > self.high, 2 * self.high - points, points, out=points)
        return self.clamp_(points)

    def holds(self, x: Tensor) -> Tensor:
        """Which coordinates are at a bound."""
        return (x <= self.low) | (x >= self.high)

    def without_outward(self, x: Tensor, along: Tensor) -> Tensor:
        """What is subtracted from x, without coordinates that would leave from a bound."""
        leaves = ((x <= self.low) & (along > 0)) | ((x >= self.high) & (along < 0))
        return along.masked_fill(leaves, 0)

    def around(self, x: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
        """A point near x, and how far it is free in both directions, at most ``reach``."""
        free = torch.minimum(reach, (self.high - self.low) / 2)
        return torch.minimum(torch.maximum(x, self.low + free), self.high - free), free


def _rounded(bounds: Tensor, dtype: torch.dtype, *, up: bool) -> Tensor:
    """Bounds in another precision, not outside of what they were."""
    near = bounds.to(dtype)
    away = torch.full_like(near, torch.inf if up else -torch.inf)
    outside = near.double() < bounds if up else near.double() > bounds
    return torch.where(outside, torch.nextafter(near, away), near)
