"""Nesterov's momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zotune.updates import register

if TYPE_CHECKING:
    from torch import Tensor


@register(
    "nesterov",
    formula="v ← β v + η ĝ;  x ← x − (β v + η ĝ)",
    slots=("velocity",),
    linear=True,
    takes_coefficient=True,
)
def nesterov(
    g: Tensor, slots: Mapping[str, Tensor], eta: float, t: int, *, coefficient: float = 0.9
) -> Tensor:
    """Momentum that looks ahead: the new velocity is applied once more (β is ``momentum``, 0.9).

    In the mean it multiplies the step by 1 / (1 − β). No step of the theory is known for random
    directions at a constant β. Sutskever, Martens, Dahl, Hinton 2013, in the form of PyTorch.
    """
    velocity = slots["velocity"].mul_(coefficient).add_(g, alpha=eta)
    return (coefficient * velocity).add_(g, alpha=eta)
