"""Updates: how an estimate moves the point, and the vectors that are kept for it (its slots).

One file an update. The function gets an estimate g = U·c at a stretch of the vector, its slots at
the same stretch, the step size eta and the index t of the step, and returns what is subtracted from
x. It works number by number, so that a vector of ten coordinates and a tile of a model's weights
are the same to it. It may change its slots in place; they begin at zero.

An update that needs inner products of whole vectors (``lbfgs``) declares a ``basis``, vectors made
of g and the slots number by number, and ``weigh``, which turns their Gram matrix into weights that
the function is then given.

Your own, in a few lines::

    from zotune import updates

    @updates.register("heavy", formula="v ← 0.5 v + g;  x ← x − η v", slots=("velocity",))
    def heavy(g, slots, eta, t):
        return eta * slots["velocity"].mul_(0.5).add_(g)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from zotune.registry import Registry, summary_of

if TYPE_CHECKING:
    from torch import Tensor

PLAIN, WITH_MOMENTUM, QUASI_NEWTON = "sgd", "momentum", "lbfgs"
"""Updates that other parts of zotune refer to: those that ``auto`` chooses from."""

Move = Callable[..., "Tensor"]
"""(g, slots, eta, t[, weights]) → what is subtracted from x."""
Basis = Callable[["Tensor", Mapping[str, "Tensor"]], Sequence["Tensor"]]
"""(g, slots) → vectors whose inner products are wanted."""
Weigh = Callable[..., "Tensor"]
"""(Gram matrix, t) → the weights that ``move`` is given, both in float64."""


@dataclass(frozen=True)
class Update:
    """An entry of the registry: the move and what is known of it."""

    name: str
    formula: str
    summary: str
    move: Callable[..., Tensor]
    slots: tuple[str, ...] = ()
    """Names of the vectors that it keeps, each as long as x, in float32 at least."""
    linear: bool = False
    """Whether move(g, eta) = move(eta·g, 1): eta is then a factor of the estimate, and may be one
    of the theory's step; else it is a length."""
    takes_coefficient: bool = False
    """Whether ``momentum`` of the configuration is given to it as ``coefficient``."""
    takes_spread: bool = False
    """Whether it is told how far estimates lie from the gradient, as ``spread``: ω ≥ 1."""
    basis: Basis | None = None
    """Vectors whose Gram matrix it needs before it moves."""
    weigh: Weigh | None = None
    """What it makes of that matrix, for each replicate."""
    natural: float | None = None
    """The step size that it aims at; None where that is for others to say."""
    needs_gradient: bool = False
    """Whether it makes little of anything but the gradient itself: ``q: auto`` then takes full
    blocks sooner."""

    @property
    def plain(self) -> bool:
        """Whether it subtracts η U c and nothing else, in one operation where possible."""
        return self.linear and not self.slots

    def bound(self, coefficient: float, spread: float = 1.0) -> Move:
        """The move with what it is told of the configuration and the estimate."""
        told = {"coefficient": coefficient} if self.takes_coefficient and coefficient else {}
        told |= {"spread": spread} if self.takes_spread else {}
        return partial(self.move, **told) if told else self.move

    def bound_weigh(self, coefficient: float, spread: float, dim: int) -> Weigh | None:
        """The same of ``weigh``; None where a constant coefficient needs no weights."""
        if self.weigh is None or not self.takes_spread:
            return self.weigh
        return None if coefficient else partial(self.weigh, spread=spread, dim=dim)


UPDATES: Registry[Update] = Registry("update", __name__, lambda e: e.move)


def register(
    name: str,
    *,
    formula: str,
    summary: str = "",
    slots: tuple[str, ...] = (),
    linear: bool = False,
    takes_coefficient: bool = False,
    takes_spread: bool = False,
    basis: Basis | None = None,
    weigh: Weigh | None = None,
    natural: float | None = None,
    needs_gradient: bool = False,
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Register the decorated function as an update under ``name``, which must be new."""

    def add(move: Callable[..., Tensor]) -> Callable[..., Tensor]:
        doc = summary or summary_of(move)
        entry = Update(
            name,
            formula,
            doc,
            move,
            slots,
            linear=linear,
            takes_coefficient=takes_coefficient,
            takes_spread=takes_spread,
            basis=basis,
            weigh=weigh,
            natural=natural,
            needs_gradient=needs_gradient,
        )
        UPDATES.add(name, entry)
        return move

    return add
