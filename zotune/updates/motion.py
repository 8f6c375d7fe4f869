"""From U·c to what is subtracted from x: the estimator's memory, then the update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zotune.updates import Update

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.estimators import Estimator

REMEMBERED = "remembered"
"""The slot of the vector that an estimator remembers."""


class Motion:
    """An estimator's memory and an update as one move, number by number.

    Args:
        update: the update.
        estimator: of the estimate; its memory, if it has one, is one more slot.
        coefficient: ``momentum`` of the configuration.
        spread: how far estimates lie from the gradient, ω of ``Estimator.spread``.
        dim: of x.
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
        self.slots = (*update.slots, *([REMEMBERED] if self._remember else []))
        self.linear = update.linear and self._remember is None
        """Whether eta may be multiplied into U·c beforehand."""
        self.plain = update.plain and self._remember is None
        """Whether η U·c is subtracted and nothing else."""
        self.weigh = update.bound_weigh(coefficient, spread, dim)

    @property
    def remembers(self) -> bool:
        """Whether the estimate is m + U·c with a vector m that is kept."""
        return self._remember is not None

    def estimate(self, along: Tensor, slots: Mapping[str, Tensor]) -> Tensor:
        """The estimate: U·c, or m + U·c."""
        return along if self._remember is None else along + slots[REMEMBERED].to(along.dtype)

    def basis(self, along: Tensor, slots: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """The vectors whose Gram matrix the update wants."""
        assert self.update.basis is not None  # asked for where ``weigh`` is there
        return self.update.basis(self.estimate(along, slots), slots)

    def __call__(
        self,
        along: Tensor,
        slots: Mapping[str, Tensor],
        eta: float,
        t: int,
        weights: Tensor | None = None,
    ) -> Tensor:
        """What is subtracted from x, where U·c is ``along``; slots are changed in place."""
        g = self.estimate(along, slots)
        if self._remember is not None:
            m = slots[REMEMBERED]
            m.copy_(self._remember(m, along))
        if weights is None:
            return self._move(g, slots, eta, t)
        return self._move(g, slots, eta, t, weights=weights)
