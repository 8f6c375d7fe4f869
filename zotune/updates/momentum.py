"""Heavy-ball momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zotune.updates import register

if TYPE_CHECKING:
    from torch import Tensor


@register(
    "momentum",
    formula="v ← β v + η ĝ;  x ← x − v",
    slots=("velocity",),
    linear=True,
    takes_coefficient=True,
)
def momentum(
    g: Tensor, slots: Mapping[str, Tensor], eta: float, t: int, *, coefficient: float = 0.9
) -> Tensor:
    """Polyak's heavy ball with momentum coefficient β (``momentum``, 0.9).

    It effectively multiplies the step by 1 / (1 − β): use a smaller step accordingly. Polyak 1964.
    """
    return slots["velocity"].mul_(coefficient).add_(g, alpha=eta)
