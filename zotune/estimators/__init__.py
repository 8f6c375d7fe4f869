"""Gradient estimators: an estimate is U·c, and an estimator is the choice of c.

One file an estimator. The function gets the directional differences v and the block of
directions, and returns the coefficients c; it neither knows nor cares whether the block is dense,
orthogonal or replayed from its address. Your own, in a few lines::

    from zotune import estimators

    @estimators.register("sign", formula="U sign(v) / q")
    def sign(v, block):
        return v.sign() / block.q

An estimator may keep a vector m from step to step: declare ``remember``, a function of m and U·c.
The estimate is then m + U·c, with c from v − Uᵀm, the part of the differences that m does not
explain; m begins at zero, is saved with the run, and lives beside a model's weights as beside a
vector.

``exact`` and ``preferred_q`` tell ``q: auto`` and ``update: auto`` what to choose for yours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zotune.core.code import refusal
from zotune.errors import ConfigError
from zotune.registry import Registry, summary_of

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.blocks import Block
    from zotune.directions import Directions

Coefficients = Callable[["Tensor", "Block"], "Tensor"]
Remember = Callable[["Tensor", "Tensor"], "Tensor"]


@dataclass(frozen=True)
class Moments:
    """What the mean step of an estimate needs, relative to ‖g‖² and for mu → 0.

    ``alignment`` is E gᵀĝ / ‖g‖² and ``energy`` is E‖ĝ‖² / ‖g‖².
    """

    alignment: float
    energy: float

    @property
    def mse(self) -> float:
        """E‖ĝ − g‖² / ‖g‖²."""
        return self.energy - 2 * self.alignment + 1

    @property
    def step(self) -> float:
        """L times the step that maximises the decrease guaranteed for an L-smooth function."""
        return self.alignment / self.energy

    @property
    def progress(self) -> float:
        """2L times that decrease, over ‖g‖²."""
        return self.alignment**2 / self.energy


@dataclass(frozen=True)
class Estimator:
    """An entry of the registry: the coefficients and what is known of them."""

    name: str
    formula: str
    summary: str
    coefficients: Coefficients
    moments: Callable[[Directions, int, int], Moments] | None = None
    """Moments of the estimate from the directions, q and d; None: no theory step."""
    at_most_dim: bool = False
    """Whether a block of more than d directions makes no sense."""
    claims: frozenset[str] = frozenset()
    """Properties that the tests hold it to: see ``CLAIMS``."""
    remember: Remember | None = None
    """What becomes of a vector m that is kept from step to step, from m and U·c, number by number.
    With one, the estimate is m + U·c, and v comes less Uᵀm: what m does not explain."""
    exact: bool = False
    """Whether d independent directions give the gradient itself: ``q: auto`` then takes full blocks
    where the budget covers several, and ``update: auto`` a quasi-Newton update for them."""
    preferred_q: int | None = None
    """What ``q: auto`` takes where blocks are not full; None: √(d + 1), as for averaging."""

    def spread(self, directions: Directions, q: int, dim: int) -> float:
        """ω = E‖ĝ‖²‖g‖² / (E gᵀĝ)²: how many steps do the work of one along the gradient.

        d/q where the estimator declares no moments, as of a projection.
        """
        if self.moments is None:
            return max(1.0, dim / q)
        return 1 / self.moments(directions, q, dim).progress

    def closest(self, directions: Directions, q: int, dim: int) -> float:
        """The multiple of the estimate that is closest to g: E gᵀĝ / E‖ĝ‖², 1 of a projection.

        An average of few directions is far longer than g, and so is the decrease that it predicts.
        """
        if self.moments is None or self.remember is not None:
            return 1.0
        return self.moments(directions, q, dim).step

    def __call__(self, v: Tensor, block: Block) -> Tensor:
        """The coefficients c of the estimate U·c."""
        return self.coefficients(v, block)


def require_possible(estimator: Estimator, directions: Directions, q: int, d: int) -> None:
    """Refuse blocks that the estimator or the directions cannot have."""
    for what, limited in (
        (f"estimator {estimator.name!r}", estimator.at_most_dim),
        (f"directions {directions.name!r}", directions.orthogonal),
    ):
        if limited and q > d:
            raise ConfigError(
                f"q must be at most the dimension for {what}, got q={q} with d={d}; lower q"
            )


CLAIMS = {
    "linear": "the estimate is linear in v: it scales with the objective and ignores constants",
    "interpolates": "the estimate agrees with every measured difference: uᵢᵀĝ = vᵢ",
    "projects": "the estimate of a linear function is the projection of its gradient",
    "scale-free": "rescaling a direction changes nothing",
}

ESTIMATORS: Registry[Estimator] = Registry("estimator", __name__, lambda e: e.coefficients)


def register(
    name: str,
    *,
    formula: str,
    summary: str = "",
    moments: Callable[[Directions, int, int], Moments] | None = None,
    at_most_dim: bool = False,
    claims: frozenset[str] | set[str] = frozenset(),
    remember: Remember | None = None,
    exact: bool = False,
    preferred_q: int | None = None,
) -> Callable[[Coefficients], Coefficients]:
    """Register the decorated function as an estimator under ``name``, which must be new."""

    def add(coefficients: Coefficients) -> Coefficients:
        ESTIMATORS.require_new(name)
        if wrong := refusal(coefficients, 2):
            raise ConfigError(f"estimator {name!r} must be a function of v and block: {wrong}")
        doc = summary or summary_of(coefficients)
        entry = Estimator(
            name,
            formula,
            doc,
            coefficients,
            moments=moments,
            at_most_dim=at_most_dim,
            claims=frozenset(claims),
            remember=remember,
            exact=exact,
            preferred_q=preferred_q,
        )
        ESTIMATORS.add(name, entry)
        return coefficients

    return add
