"""An estimator with its directions in d dimensions, and the regimes of the theory."""

from __future__ import annotations

from dataclasses import dataclass

from zotune.directions import DIRECTIONS, Directions
from zotune.errors import ConfigError
from zotune.estimators import ESTIMATORS, Estimator, Moments, require_possible
from zotune.objectives import positive_int

STRONGLY_CONVEX, CONVEX, NONCONVEX = "strongly-convex", "convex", "nonconvex"
STOCHASTIC = "stochastic"
REGIMES = {
    STRONGLY_CONVEX: "E f(x_T) − f*",
    CONVEX: "E f(x_T) − f*",
    NONCONVEX: "min E‖∇f(x_t)‖²",
    STOCHASTIC: "E f(x̄_T) − f*",
}
"""The quantity that the theorem of each regime bounds."""
EQUAL = 1e-9
"""Relative differences up to this count as rounding errors."""


@dataclass(frozen=True)
class Estimation:
    """An estimator with its directions in d dimensions, which determine its moments.

    >>> avg, align = method("avg", 1000), method("align", 1000)
    >>> avg.mse(1), align.mse(250)
    (1001.0, 0.75)
    >>> align.step(250, L=4.0)
    0.25
    """

    estimator: Estimator
    directions: Directions
    dim: int

    def moments(self, q: int) -> Moments:
        """a and e of an estimate from q directions."""
        assert self.estimator.moments is not None  # method() has checked it
        require_possible(self.estimator, self.directions, positive_int("q", q), self.dim)
        return self.estimator.moments(self.directions, q, self.dim)

    def mse(self, q: int) -> float:
        """E‖ĝ − g‖² / ‖g‖² = e − 2a + 1."""
        return self.moments(q).mse

    def step(self, q: int, *, L: float = 1.0) -> float:
        """a/(eL), the step with the largest guaranteed decrease of an L-smooth function."""
        return self.moments(q).step / L

    def progress(self, q: int) -> float:
        """p = a²/e, 2L/‖g‖² times that decrease; 1 for the exact gradient."""
        return self.moments(q).progress


def method(estimator: str, dim: int, directions: str = "gaussian") -> Estimation:
    """The method with these names; raises an error for an estimator without moments."""
    entry = ESTIMATORS[estimator]
    if entry.moments is None:
        raise ConfigError(
            f"estimator {estimator!r} declares no moments, so nothing is known of it; "
            "register it with moments"
        )
    return Estimation(entry, DIRECTIONS[directions], positive_int("dim", dim))
