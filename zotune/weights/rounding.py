"""Stochastic rounding of updates to weights of low precision.

A float16 or bfloat16 weight has 11 or 8 binary digits, and most updates are smaller than half the
gap to the next number. Rounding to nearest would lose them. Rounding up or down at random, with
probabilities that make the mean exact to 2⁻³¹ of the gap, preserves them on average. The random
numbers have addresses, so that a resumed run rounds exactly like an uninterrupted one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.addresses import Generators, Keys

HALF = (torch.float16, torch.bfloat16)
_SMALLEST = {torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}
"""The gap between neighbouring numbers around 0."""
LEVELS = 2**31
"""Number of levels of the random numbers, a power of two that 32 random bits provide."""
_EXPONENT = 0x7FF << 52
"""Mask of the exponent bits of a float64; without the others it is the power of two below it."""


class Rounder:
    """Moves weights of one dtype, by the address of step and tile."""

    def __init__(self, keys: Keys, dtype: torch.dtype, device: torch.device, width: int) -> None:
        self._dtype = dtype
        self._generators = Generators(keys, device)
        size = -(-width // 16) * 16 if dtype in HALF else 0
        self._uniform = torch.empty(size, dtype=torch.float64, device=device)

    def begin(self, step: int, tile: int) -> None:
        """Draw the random numbers of a tile; float32 and float64 weights need none."""
        if self._dtype in HALF:
            generator = next(self._generators.at(step, 0, tile))
            self._uniform.random_(0, LEVELS, generator=generator).add_(0.5).div_(LEVELS)

    def subtract(self, weights: Tensor, change: Tensor, of_tile: slice) -> None:
        """weights ← weights − change, in place; ``of_tile`` says where in the tile they are."""
        if self._dtype in HALF:
            wanted = weights.double().sub_(change)
            weights.copy_(round_randomly(wanted, self._uniform[of_tile], self._dtype))
        else:
            weights.sub_(change)


def round_randomly(wanted: Tensor, uniform: Tensor, dtype: torch.dtype) -> Tensor:
    """Round float64 values stochastically to ``dtype``, so that the mean is unbiased.

    The probability of rounding up is the share of the gap below the value. Values that ``dtype``
    represents exactly are unchanged. Beyond the largest number the neighbour is infinite.
    ``uniform`` is float64, so that its sum with a value of at most 11 digits before the point is
    exact.

    >>> third = torch.full((30_000,), 1 + 2**-7 / 3, dtype=torch.float64)
    >>> generator = torch.Generator().manual_seed(0)
    >>> uniform = torch.rand(30_000, dtype=torch.float64, generator=generator)
    >>> rounded = round_randomly(third, uniform, torch.bfloat16)
    >>> rounded.unique().tolist(), bool((rounded.double().mean() - third[0]).abs() < 1e-4)
    ([1.0, 1.0078125], True)
    """
    power = wanted.view(torch.int64).bitwise_and(_EXPONENT).view(torch.float64)
    gap = power.mul_(torch.finfo(dtype).eps).clamp_(min=_SMALLEST[dtype])
    rounded = wanted.div(gap).add_(uniform).floor_().mul_(gap)
    return torch.where(wanted.isfinite(), rounded, wanted).to(dtype)
