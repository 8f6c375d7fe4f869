"""Updates: how an estimate moves the point, and the vectors that are kept for it (its slots).

One file per update. The function gets an estimate g = U·c for a range of coordinates, its slots for
the same range, the step size eta and the index t of the step, and returns the vector to subtract
from x. It works elementwise, so that it applies to a vector of ten coordinates as well as to a tile
of a model's weights. It may change its slots in place; they start at zero.

An update that needs inner products of whole vectors (``lbfgs``) declares a ``basis``, vectors
computed elementwise from g and the slots, and ``weigh``, which maps their Gram matrix to weights
that are passed to the function.

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
"""(g, slots, eta, t[, weights]) → the vector to subtract from x."""
Basis = Callable[["Tensor", Mapping[str, "Tensor"]], Sequence["Tensor"]]
"""(g, slots) → vectors whose inner products are needed."""
Weigh = Callable[..., "Tensor"]
"""(Gram matrix, t) → the weights for ``move``, both in float64."""


@dataclass(frozen=True)
class Update:
    """An entry of the registry: the move and its properties."""

    name: str
    formula: str
    summary: str
    move: Callable[..., Tensor]
    slots: tuple[str, ...] = ()
    """Names of the vectors that it keeps, each with the length of x, in float32 at least."""
    linear: bool = False
    """Whether move(g, eta) = move(eta·g, 1): eta is then a factor of the estimate, and may be a
    multiple of the theory's step; else eta is a length."""
    takes_coefficient: bool = False
    """Whether it gets the setting ``momentum`` as ``coefficient``."""
    takes_spread: bool = False
    """Whether it gets the spread ω ≥ 1 of the estimates as ``spread``."""
    basis: Basis | None = None
    """Vectors whose Gram matrix it needs."""
    weigh: Weigh | None = None
    """Function of that matrix, for each replicate."""
    natural: float | None = None
    """Its natural step size, such as 1 for quasi-Newton; None if it has none."""
    needs_gradient: bool = False
    """Whether it works well only with exact gradients: ``q: auto`` then uses full blocks sooner."""

    @property
    def no_theory(self) -> str:
        """Why it has no theory step, and for a user's update how it gets one."""
        said = f"step 'theory' is a factor of the estimate, and update {self.name!r} takes lengths"
        if self.name not in UPDATES.plugins:
            return said
        return f"{said} (where move(g, eta) = move(eta·g, 1), register it with linear=True)"

    @property
    def plain(self) -> bool:
        """Whether it is ``sgd``, which subtracts η U c in one operation without calling the move.

        Other linear updates without slots, such as half of the estimate, have to be called.
        """
        return self.move is UPDATES[PLAIN].move

    def bound(self, coefficient: float, spread: float = 1.0) -> Move:
        """The move with its coefficient and spread bound."""
        told = {"coefficient": coefficient} if self.takes_coefficient and coefficient else {}
        told |= {"spread": spread} if self.takes_spread else {}
        return partial(self.move, **told) if told else self.move

    def bound_weigh(self, coefficient: float, spread: float, dim: int) -> Weigh | None:
        """The same for ``weigh``; None if a constant coefficient needs no weights."""
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
