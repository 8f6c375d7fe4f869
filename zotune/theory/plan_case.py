"""The input of a plan (``Case``), and the guarantee for each option to spend the budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, inf

from zotune.core.budget import Budget, Ledger
from zotune.core.differences import get_difference
from zotune.directions import DIRECTIONS as DIRECTION_KINDS
from zotune.errors import ConfigError, one_of
from zotune.estimators import ESTIMATORS
from zotune.objectives import positive_int
from zotune.theory import (
    CONVEX,
    NONCONVEX,
    REGIMES,
    STOCHASTIC,
    STRONGLY_CONVEX,
    Allocation,
    Estimation,
    accelerated_bound,
    convex_bound,
    least_stochastic_bound,
    log_contraction,
    method,
    nonconvex_bound,
    search_block,
)
from zotune.updates import PLAIN, UPDATES

ACCELERATED = "nesterov"
"""The update with a known rate, besides plain descent."""
LEAST_DIM = {NONCONVEX: 2}
"""Minimum dimension of the problem of a regime's study; Rosenbrock's function needs two."""
LARGEST_DIM, LARGEST_BUDGET = 1000, 10**6
"""Limits of a proposed study, so that it finishes: the paper's dimension, 50 of its budgets."""


@dataclass(frozen=True)
class Option:
    """One way to spend the budget, and its guarantee by the theory."""

    estimator: str
    q: int
    steps: int
    """T, a shrunken last block included."""
    last_block: int
    """Directions of the last step; less than q where the budget is no multiple of a step."""
    queries: int
    evaluations: int
    step: float
    """The step size, or the first one under the stochastic regime; a multiple of 1/L without L."""
    bound: float
    """The guarantee, as a multiple of the plan's unit."""
    contraction: float | None
    """The factor of one whole step in the strongly convex regime."""
    rate: float
    """The value to compare: −log of the bound's factor if strongly convex, else 1/bound."""
    share: float = 1.0
    """The rate relative to the best one's."""


def case_of(
    dim: int,
    budget: int,
    *,
    regime: str,
    count: str,
    difference: str,
    directions: str,
    L: float | None,
    condition: float,
    noise: float,
    update: str = PLAIN,
) -> Case:
    """The validated input of ``plan``."""
    case = Case(
        dim=positive_int("dim", dim),
        regime=one_of("regime", regime, REGIMES),
        directions=one_of("directions", directions, DIRECTION_KINDS),
        budget=Budget(positive_int("budget", budget), count, get_difference(difference)),
        L=_checked("L", L, above=0.0) if L is not None else None,
        condition=_checked("condition", condition, above=1.0),
        noise=_checked("noise", noise),
        update=one_of("update", update, UPDATES),
    )
    case.budget.require(case.budget.cost(1), f"one step ({difference} with q=1)")
    return case


def _checked(what: str, value: float, *, above: float | None = None) -> float:
    """A finite number, above a limit or else not negative."""
    if not (value > above if above is not None else value >= 0) or value == inf:
        least = "of at least 0" if above is None else f"above {above:g}"
        raise ConfigError(f"{what} must be a finite number {least}, got {value!r}")
    return float(value)


@dataclass(frozen=True)
class Case:
    """The validated input of a plan."""

    dim: int
    regime: str
    directions: str
    budget: Budget
    L: float | None
    condition: float
    noise: float
    update: str = PLAIN

    @property
    def accelerated(self) -> bool:
        """Whether an accelerated rate of the update is known."""
        return self.update == ACCELERATED and self.regime == CONVEX

    @property
    def methods(self) -> list[Estimation]:
        """All estimators with known moments."""
        known = [name for name, entry in ESTIMATORS.items() if entry.moments is not None]
        return [method(name, self.dim, self.directions) for name in known]

    @property
    def most(self) -> int:
        """The largest block that dimension and budget allow."""
        return self.budget.block(Ledger(), self.dim)

    @property
    def powers(self) -> list[int]:
        """1, 10, 100, … up to the largest block."""
        return [10**k for k in range(len(str(self.most)))]

    def sizes(self, how: Estimation) -> list[int]:
        """Block sizes to show: powers of ten, the best for this budget, the largest."""
        best = search_block(lambda q: self.option(how, q).rate, self.most)
        return sorted({*self.powers, best, self.most})

    def steps(self, q: int) -> int:
        """Number of steps of q within the budget, including a smaller last one."""
        return Allocation.constant(q, self.budget).steps

    def calls(self, q: int) -> int:
        """Evaluations that blocks of q make within the budget."""
        allocation = Allocation.constant(q, self.budget)
        return int(allocation.total(self.budget.difference.evaluations))

    def option(self, how: Estimation, q: int) -> Option:
        """The guarantee for constant blocks of q."""
        allocation = Allocation.constant(q, self.budget)
        step, bound, rate = _GUARANTEES[self.regime](self, how, allocation)
        evaluations = allocation.total(self.budget.difference.evaluations)
        return Option(
            estimator=how.estimator.name,
            q=q,
            steps=allocation.steps,
            last_block=allocation.runs[-1][0],
            queries=allocation.queries,
            evaluations=int(evaluations),
            step=step / (self.L or 1.0),
            bound=bound,
            contraction=self._contraction(how, q),
            rate=rate,
        )

    @property
    def studied(self) -> Case:
        """The case scaled down to a size for a study, with a proportional budget."""
        dim = max(LEAST_DIM.get(self.regime, 1), min(self.dim, LARGEST_DIM))
        limit = min(self.budget.limit * dim // self.dim, LARGEST_BUDGET)
        limit = max(limit, self.budget.cost(1), dim if dim < self.dim else 0)
        return replace(self, dim=dim, budget=replace(self.budget, limit=limit))

    def _contraction(self, how: Estimation, q: int) -> float | None:
        return 1 - how.progress(q) / self.condition if self.regime == STRONGLY_CONVEX else None


Guarantee = tuple[float, float, float]
"""The step times L, the bound in its unit, and the rate."""


def _strongly_convex(case: Case, how: Estimation, allocation: Allocation) -> Guarantee:
    rate = -log_contraction(how, allocation, condition=case.condition)
    return how.step(allocation.runs[0][0]), exp(-rate), rate


def _convex(case: Case, how: Estimation, allocation: Allocation) -> Guarantee:
    if case.accelerated:  # without the factor 1 − 1/ω of the gap, in the unit of plain descent
        q, steps = allocation.runs[0]
        bound = accelerated_bound(how, q, steps, L=1.0, distance=1.0, gap=0.0)
    else:
        bound = convex_bound(how, allocation, L=1.0, distance=1.0, gap=0.0)
    return how.step(allocation.runs[0][0]), bound, 1 / bound


def _nonconvex(case: Case, how: Estimation, allocation: Allocation) -> Guarantee:
    bound = nonconvex_bound(how, allocation, L=1.0, gap=1.0)
    return how.step(allocation.runs[0][0]), bound, 1 / bound


def _stochastic(case: Case, how: Estimation, allocation: Allocation) -> Guarantee:
    eta0, bound = least_stochastic_bound(how, allocation, L=1.0, distance=1.0, noise=case.noise)
    return eta0, bound, 1 / bound


_GUARANTEES: dict[str, Callable[[Case, Estimation, Allocation], Guarantee]] = {
    STRONGLY_CONVEX: _strongly_convex,
    CONVEX: _convex,
    NONCONVEX: _nonconvex,
    STOCHASTIC: _stochastic,
}
