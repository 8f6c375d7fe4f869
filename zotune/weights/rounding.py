"""Adding small numbers to weights of few digits, so that they do not vanish.

A float16 or bfloat16 weight holds 11 or 8 binary digits, and most updates are smaller than half the
gap to its neighbour. Rounded to the nearest they are lost; rounded up or down at random, with the
probabilities that make the mean exact, they arrive in the mean. The random numbers have addresses,
so that a resumed run rounds as the unbroken one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.addresses import Generators, Keys

HALF = (torch.float16, torch.bfloat16)
_LEAST = {torch.float16: -24, torch.bfloat16: -120}
"""The exponent of the smallest gap between neighbours; bfloat16's is smaller still."""
_DIGITS = {torch.float16: 11, torch.bfloat16: 8}
_LEVELS = 4096
"""Of the random numbers: few enough for a float32 sum with 11 digits to be exact."""


class Rounder:
    """Moves weights of one dtype, by the address of step and tile."""

    def __init__(self, keys: Keys, dtype: torch.dtype, device: torch.device, width: int) -> None:
        self._dtype = dtype
        self._generators = Generators(keys, device)
        self._uniform = torch.empty(-(-width // 16) * 16 if dtype in HALF else 0, device=device)

    def begin(self, step: int, tile: int) -> None:
        """Draw the random numbers of a tile; weights of enough digits need none."""
        if self._dtype in HALF:
            generator = next(self._generators.at(step, 0, tile))
            self._uniform.random_(0, _LEVELS, generator=generator).add_(0.5).div_(_LEVELS)

    def subtract(self, weights: Tensor, change: Tensor, of_tile: slice) -> None:
        """weights ← weights − change, in place; ``of_tile`` says where in the tile they are."""
        if self._dtype in HALF:
            wanted = weights.float() - change
            weights.copy_(round_randomly(wanted, self._uniform[of_tile], self._dtype))
        else:
            weights.sub_(change)


def round_randomly(wanted: Tensor, uniform: Tensor, dtype: torch.dtype) -> Tensor:
    """Float32 values rounded to a neighbour in ``dtype``, up with probability the way past it.

    A value that ``dtype`` holds stays as it is.

    >>> third = torch.full((30_000,), 1 + 2**-7 / 3)
    >>> uniform = torch.rand(30_000, generator=torch.Generator().manual_seed(0))
    >>> rounded = round_randomly(third, uniform, torch.bfloat16)
    >>> rounded.unique().tolist(), bool((rounded.double().mean() - third[0]).abs() < 1e-4)
    ([1.0, 1.0078125], True)
    """
    exponent = torch.frexp(wanted).exponent - _DIGITS[dtype]
    exponent.clamp_(min=_LEAST[dtype])
    steps = torch.ldexp(wanted, -exponent)
    rounded = torch.ldexp(steps.add_(uniform).floor_(), exponent)
    return torch.where(wanted.isfinite(), rounded, wanted).to(dtype)
