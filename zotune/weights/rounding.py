"""Adding small numbers to weights of few digits, so that they do not vanish.

A float16 or bfloat16 weight holds 11 or 8 binary digits, and most updates are smaller than half the
gap to its neighbour. Rounded to the nearest they are lost; rounded up or down at random, with the
probabilities that make the mean exact to 2⁻³¹ of the gap, they arrive in the mean. The random
numbers have addresses, so that a resumed run rounds as the unbroken one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.addresses import Generators, Keys

HALF = (torch.float16, torch.bfloat16)
_SMALLEST = {torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}
"""The gap between neighbours around 0."""
LEVELS = 2**31
"""Of the random numbers: as many as 32 random bits give, a power of two, at no further cost."""
_EXPONENT = 0x7FF << 52
"""The bits of a float64 that hold its exponent: alone they are the power of two below it."""


class Rounder:
    """Moves weights of one dtype, by the address of step and tile."""

    def __init__(self, keys: Keys, dtype: torch.dtype, device: torch.device, width: int) -> None:
        self._dtype = dtype
        self._generators = Generators(keys, device)
        size = -(-width // 16) * 16 if dtype in HALF else 0
        self._uniform = torch.empty(size, dtype=torch.float64, device=device)

    def begin(self, step: int, tile: int) -> None:
        """Draw the random numbers of a tile; weights of enough digits need none."""
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
    """Float64 values rounded to a neighbour in ``dtype``, up with probability the way past it.

    A value that ``dtype`` holds stays as it is. Past the largest the neighbour is infinite.
    ``uniform`` is float64 too: its sum with a value of at most 11 digits before the point is exact.

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
