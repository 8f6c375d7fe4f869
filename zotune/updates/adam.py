"""Adam."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zotune.updates import register

if TYPE_CHECKING:
    from torch import Tensor

MEAN, SQUARE, TINY = 0.9, 0.999, 1e-8


@register(
    "adam",
    formula="m ← β₁ m + (1 − β₁) ĝ;  s ← β₂ s + (1 − β₂) ĝ²;  x ← x − η m̂ / (√ŝ + ε)",
    slots=("mean", "square"),
)
def adam(g: Tensor, slots: Mapping[str, Tensor], eta: float, t: int) -> Tensor:
    """Every coordinate by about η, whatever its scale; two vectors are kept.

    m̂ = m / (1 − β₁ᵗ⁺¹) and ŝ likewise, with β₁ = 0.9, β₂ = 0.999, ε = 1e-8. η is a length, not a
    factor of 1/L: there is no theory step. Kingma, Ba 2015; with zeroth-order estimates ZO-AdaMM,
    Chen et al. 2019.
    """
    mean = slots["mean"].mul_(MEAN).add_(g, alpha=1 - MEAN)
    square = slots["square"].mul_(SQUARE).addcmul_(g, g, value=1 - SQUARE)
    root = (square / (1 - SQUARE ** (t + 1))).sqrt_().add_(TINY)
    return (mean / root).mul_(eta / (1 - MEAN ** (t + 1)))
