"""``Motion``: combine the estimator's memory and the update to one move of x."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zotune.registry import require_like
from zotune.updates import Update

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.estimators import Estimator

REMEMBERED = "remembered"
"""Name of the slot for the estimator's memory."""


class Motion:
    """An estimator's memory and an update as one elementwise move.

    Args:
        update: the update.
        estimator: the estimator; its memory, if any, is an additional slot.
        coefficient: the setting ``momentum``.
        spread: the spread ω of ``Estimator.spread``.
        dim: dimension of x.
    """

    def __init__(
        self,
        update: Update,
        estimator: Estimator | None = None,
        coefficient: float = 0.0,
        *,
        spread: float = 1.0,
        dim: int = 1,
    ) -> None:
        self.update = update
        self.spread = spread
        self._move = update.bound(coefficient, spread)
        self._remember = None if estimator is None else estimator.remember
        self._estimator = "" if estimator is None else estimator.name
        self.slots = (*update.slots, *([REMEMBERED] if self._remember else []))
        self.linear = update.linear and self._remember is None
        """Whether eta may be multiplied into c."""
        self.plain = update.plain and self._remember is None
        """Whether the move just subtracts η U·c."""
        self.weigh = update.bound_weigh(coefficient, spread, dim)

    @property
    def remembers(self) -> bool:
        """Whether the estimator has a memory m."""
        return self._remember is not None

    def estimate(self, along: Tensor, slots: Mapping[str, Tensor]) -> Tensor:
        """The estimate: U·c, or m + U·c."""
        return along if self._remember is None else along + slots[REMEMBERED].to(along.dtype)

    def basis(self, along: Tensor, slots: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """The vectors whose Gram matrix the update needs."""
        assert self.update.basis is not None  # called only if there is ``weigh``
        return self.update.basis(self.estimate(along, slots), slots)

    def __call__(
        self,
        along: Tensor,
        slots: Mapping[str, Tensor],
        eta: float,
        t: int,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The vector to subtract from x, given U·c as ``along``; slots are changed in place."""
        g = self.estimate(along, slots)
        if self._remember is not None:
            m = slots[REMEMBERED]
            remembered = self._remember(m, along)
            require_like(f"remember of estimator {self._estimator!r}", "the next m", remembered, m)
            m.copy_(remembered)
        told = {} if weights is None else {"weights": weights}
        moved = self._move(g, slots, eta, t, **told)
        require_like(f"update {self.update.name!r}", "the vector to subtract", moved, along)
        return moved
