"""Nesterov's acceleration, for estimates from random directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zotune.updates import register

if TYPE_CHECKING:
    from torch import Tensor

DOUBT = 5.0
"""Standard deviations by which the cosine of estimate and momentum must indicate an ascent for a
restart; large, because a run of many small blocks makes this test thousands of times."""


def basis(g: Tensor, slots: Mapping[str, Tensor]) -> Sequence[Tensor]:
    """The estimate, and the momentum z − y."""
    return [g, slots["ahead"].to(g.dtype)]


def weigh(gram: Tensor, t: int, *, spread: float, dim: int) -> Tensor:
    """1 to continue, 0 to restart because the momentum significantly points uphill.

    The cosine of a fixed vector with a random subspace of R^d has a standard deviation of 1/√d, or
    0 if the block is full (ω = 1).
    """
    along, lengths = gram[0, 1], (gram[0, 0] * gram[1, 1]).sqrt()
    limit = DOUBT * max(0.0, (1 - 1 / spread) / dim) ** 0.5
    going_on: Tensor = along <= limit * lengths
    return going_on.to(gram.dtype).reshape(1)


@register(
    "nesterov",
    formula="s = (z − x⁺), z ← z − η ĝ/(ω θ), x⁺ = y − η ĝ;  y ← x⁺ + θ s,  θ = 2/(k + 2ω)",
    slots=("ahead", "age"),
    linear=True,
    takes_coefficient=True,
    takes_spread=True,
    basis=basis,
    weigh=weigh,
)
def nesterov(
    g: Tensor,
    slots: Mapping[str, Tensor],
    eta: float,
    t: int,
    *,
    coefficient: float = 0.0,
    spread: float = 1.0,
    weights: Tensor | None = None,
) -> Tensor:
    """Accelerated descent: with the theory's step, a rate of (ω/k)² on convex functions.

    ω is E‖ĝ‖²‖g‖²/(E gᵀĝ)², d/q for projections and (q + d + 1)/q for averages (``spread``); 1 is
    Nesterov's own method. With A = (1 − 1/ω)(f(x₀) − f*) + L‖x₀ − x*‖²/2,

        E f(x_k) − f* ≤ 4ω² A / (k + 2ω − 1)²,

    as for random blocks of coordinates (Fercoq, Richtárik 2015); the proof needs no more than the
    two moments of ĝ. The point that is evaluated and reported is y, between x and z. The method
    restarts if the momentum significantly points uphill (O'Donoghue, Candès 2015), which the proof
    does not cover. With ``momentum`` above 0 it is Nesterov's momentum with constant β, as in
    PyTorch: v ← β v + η ĝ, y ← y − (β v + η ĝ), for which no such rate is known.
    """
    ahead, age = slots["ahead"], slots["age"]
    if coefficient:
        ahead.mul_(coefficient).add_(g, alpha=eta)
        return (coefficient * ahead).add_(g, alpha=eta)
    if weights is not None:
        going_on = weights.unbind(-1)[0].to(ahead.dtype)
        ahead.mul_(going_on)
        age.mul_(going_on)
    ahead.sub_(age * g, alpha=eta / (2 * spread))  # z − x⁺, as 1/(ωθ) − 1 = k/(2ω)
    theta = 2 / (age + 1 + 2 * spread)
    change = eta * g - (theta * ahead).to(g.dtype)
    ahead.mul_(1 - theta)
    age.add_(1)
    return change
