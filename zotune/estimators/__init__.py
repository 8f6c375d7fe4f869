"""Gradient estimators: an estimate is U·c, and an estimator is the choice of c.

One file per estimator. The function gets the directional differences v and the block of directions,
and returns the coefficients c; it does not depend on whether the block is dense, orthogonal or
replayed from its address. Your own, in a few lines::

    from zotune import estimators

    @estimators.register("sign", formula="U sign(v) / q")
    def sign(v, block):
        return v.sign() / block.q

An estimator may have a memory, a vector m: declare ``remember``, a function of m and U·c that
returns the next m. The estimate is then m + U·c, with c computed from v − Uᵀm, the residual of the
differences. m starts at zero, is saved with the run, and works for vectors and for models.

``exact`` and ``preferred_q`` determine what ``q: auto`` and ``update: auto`` choose for yours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zotune.core.code import refusal
from zotune.errors import ConfigError
from zotune.registry import Registry, require_like, summary_of

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.blocks import Block
    from zotune.directions import Directions

Coefficients = Callable[["Tensor", "Block"], "Tensor"]
Remember = Callable[["Tensor", "Tensor"], "Tensor"]


@dataclass(frozen=True)
class Moments:
    """The moments of an estimate, relative to ‖g‖² and for mu → 0.

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
    """An entry of the registry: the function for the coefficients and its properties."""

    name: str
    formula: str
    summary: str
    coefficients: Coefficients
    moments: Callable[[Directions, int, int], Moments] | None = None
    """Moments of the estimate from the directions, q and d; None: no theory step."""
    at_most_dim: bool = False
    """Whether a block of more than d directions makes no sense."""
    claims: frozenset[str] = frozenset()
    """Properties that the conformance tests check: see ``CLAIMS``."""
    remember: Remember | None = None
    """Elementwise function of the memory m and U·c that returns the next m. If it is given, the
    estimate is m + U·c, and the function for c gets v − Uᵀm."""
    exact: bool = False
    """Whether d independent directions give the exact gradient: ``q: auto`` then uses full blocks
    if the budget covers several, and ``update: auto`` a quasi-Newton update with them."""
    preferred_q: int | None = None
    """The choice of ``q: auto`` if blocks are not full; None: √(d + 1), as for averaging."""

    def spread(self, directions: Directions, q: int, dim: int) -> float:
        """ω = E‖ĝ‖²‖g‖² / (E gᵀĝ)², the number of steps that equal one along the gradient.

        d/q, as for a projection, if the estimator declares no moments.
        """
        if self.moments is None:
            return max(1.0, dim / q)
        return 1 / self.moments(directions, q, dim).progress

    def closest(self, directions: Directions, q: int, dim: int) -> float:
        """The scale factor that brings the estimate closest to g: E gᵀĝ / E‖ĝ‖².

        It is 1 for a projection.
        An average of few directions is far longer than g, and overestimates the decrease.
        """
        if self.moments is None or self.remember is not None:
            return 1.0
        return self.moments(directions, q, dim).step

    def __call__(self, v: Tensor, block: Block) -> Tensor:
        """The coefficients c of the estimate U·c."""
        c = self.coefficients(v, block)
        require_like(f"estimator {self.name!r}", "c, one coefficient a direction", c, v)
        return c


def require_possible(estimator: Estimator, directions: Directions, q: int, d: int) -> None:
    """Raise an error for block sizes that the estimator or the directions do not support."""
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
