"""What the theory would do with a budget: estimator, block size, steps and the guarantee.

``plan`` compares the bounds of ``zotune.theory`` over all estimators with known moments and all
block sizes. It needs no function and no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from math import exp, inf
from typing import Any

from zotune.core.budget import EVALUATIONS, Budget, Ledger
from zotune.core.differences import FORWARD, get_difference
from zotune.directions import DIRECTIONS as DIRECTION_KINDS
from zotune.errors import ConfigError, one_of
from zotune.estimators import ESTIMATORS
from zotune.objectives import positive_int
from zotune.theory import (
    CONVEX,
    EQUAL,
    NONCONVEX,
    REGIMES,
    STOCHASTIC,
    STRONGLY_CONVEX,
    Allocation,
    Method,
    accelerated_bound,
    convex_bound,
    geometric,
    least_stochastic_bound,
    log_contraction,
    method,
    nonconvex_bound,
    search_block,
)
from zotune.theory.plan_words import advice, assumptions, command, notes, own_study
from zotune.updates import UPDATES

PLAIN, ACCELERATED = "sgd", "nesterov"
WITHIN = 0.05
"""The loss of rate that still counts as flat."""

UNITS = {
    STRONGLY_CONVEX: "(f(x_0) − f*)",
    CONVEX: "(L ‖x_0 − x*‖² + 2 (f(x_0) − f*))",
    NONCONVEX: "L (f(x_0) − f*)",
    STOCHASTIC: "L ‖x_0 − x*‖²",
}
"""What the bound of each regime is a multiple of."""

ENOUGH = 10
"""Steps below which a bound is taken for less than it says, where another is as good."""

LEAST_DIM = {NONCONVEX: 2}
"""Dimensions that the problem of a regime's study has at least; Rosenbrock's function has two."""
LARGEST_DIM, LARGEST_BUDGET = 1000, 10**6
"""What a proposed study has at most, so that it ends: the paper's dimension, 50 of its budgets."""


@dataclass(frozen=True)
class Option:
    """One way to spend the budget, and what the theory guarantees for it."""

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
    """What is compared: −log of the bound's factor if strongly convex, elsewhere 1/bound."""
    share: float = 1.0
    """The rate relative to the best one's."""


@dataclass(frozen=True)
class Flatness:
    """How far the block size of an estimator can be from its best."""

    estimator: str
    q: int
    """Its best block size among the options."""
    low: int
    high: int
    """From low to high, no more than ``within`` of the rate is lost."""
    within: float


@dataclass(frozen=True)
class Plan:
    """The best option, its alternatives, and what they rest on."""

    dim: int
    budget: int
    regime: str
    count: str
    difference: str
    directions: str
    L: float | None
    best: Option
    alternatives: tuple[Option, ...]
    """All options, by estimator and q; the best one is among them."""
    flatness: tuple[Flatness, ...]
    """One an estimator; the best one's first."""
    bounded: str
    """What the bound is on."""
    unit: str
    """What the bound is a multiple of."""
    step_unit: str
    """1/L where L is not given, else empty."""
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    command: str
    """The study that finds out what tuning the step changes."""
    advice: tuple[str, ...] = ()
    """What a person would say: which block sizes lose nothing, memory, time."""
    own_study: str = ""
    """The command that begins a study of the user's own function."""

    @property
    def estimator(self) -> str:
        """The best estimator."""
        return self.best.estimator

    @property
    def q(self) -> int:
        """Its directions a step."""
        return self.best.q

    @property
    def steps(self) -> int:
        """How many steps the budget lasts."""
        return self.best.steps

    @property
    def step(self) -> float:
        """The step size, times L where L is not given."""
        return self.best.step

    @property
    def bound(self) -> float:
        """The guarantee, in multiples of ``unit``."""
        return self.best.bound

    def to_dict(self) -> dict[str, Any]:
        """The plan in plain values, for JSON."""
        return asdict(self)


def plan(
    dim: int,
    budget: int,
    *,
    regime: str = NONCONVEX,
    count: str = EVALUATIONS,
    difference: str = FORWARD,
    directions: str = "gaussian",
    L: float | None = None,
    condition: float = 100.0,
    noise: float = 1.0,
    update: str = PLAIN,
) -> Plan:
    """Choose estimator, q and step size by the theory alone, before anything is evaluated.

    Args:
        dim: d.
        budget: what may be spent, in the unit of ``count``.
        regime: strongly-convex, convex, nonconvex or stochastic.
        count: evaluations (every call of f) or directions (as the paper counts).
        difference: forward (q + 1 evaluations a step) or central (2q).
        directions: gaussian, sphere, rademacher, coordinate or orthogonal.
        L: Lipschitz constant of the gradient; the step is a multiple of 1/L without it.
        condition: L/γ, above 1, of the strongly convex regime only.
        noise: σ in multiples of L ‖x_0 − x*‖, of the stochastic regime only.
        update: sgd, or nesterov, whose rate is known for convex functions. For any other the plan
            is that of sgd, and says so.

    Returns:
        A ``Plan``; ``to_dict()`` for JSON, ``render(plan)`` for a terminal.

    >>> paper = plan(1000, 20000, regime="strongly-convex", count="directions")
    >>> paper.estimator, paper.q, paper.steps, paper.step, paper.step_unit
    ('align', 1000, 20, 1.0, '1/L')
    >>> charged = plan(1000, 20000, regime="convex")
    >>> [option.q for option in charged.alternatives if option.estimator == "avg"]
    [1, 10, 31, 100, 1000]
    """
    return _planned(
        case_of(
            dim,
            budget,
            regime=regime,
            count=count,
            difference=difference,
            directions=directions,
            L=L,
            condition=condition,
            noise=noise,
            update=update,
        )
    )


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
    """What ``plan`` is asked for, checked."""
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
    """What a plan is asked for, checked."""

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
        """Whether a rate of the update is known that plain descent does not have."""
        return self.update == ACCELERATED and self.regime == CONVEX

    @property
    def methods(self) -> list[Method]:
        """Everything that has a theory."""
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

    def sizes(self, how: Method) -> list[int]:
        """Block sizes to show: powers of ten, the best for just this budget, the largest."""
        best = search_block(lambda q: self.option(how, q).rate, self.most)
        return sorted({*self.powers, best, self.most})

    def steps(self, q: int) -> int:
        """How many steps of q the budget lasts, a smaller last one included."""
        return Allocation.constant(q, self.budget).steps

    def calls(self, q: int) -> int:
        """Evaluations that blocks of q make within the budget."""
        allocation = Allocation.constant(q, self.budget)
        return int(allocation.total(self.budget.difference.evaluations))

    def option(self, how: Method, q: int) -> Option:
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
        """The case at a size that a study can have, the budget in proportion to the dimension."""
        dim = max(LEAST_DIM.get(self.regime, 1), min(self.dim, LARGEST_DIM))
        limit = min(self.budget.limit * dim // self.dim, LARGEST_BUDGET)
        limit = max(limit, self.budget.cost(1), dim if dim < self.dim else 0)
        return replace(self, dim=dim, budget=replace(self.budget, limit=limit))

    def _contraction(self, how: Method, q: int) -> float | None:
        return 1 - how.progress(q) / self.condition if self.regime == STRONGLY_CONVEX else None


Guarantee = tuple[float, float, float]
"""The step times L, the bound in its unit, and the rate."""


def _strongly_convex(case: Case, how: Method, allocation: Allocation) -> Guarantee:
    rate = -log_contraction(how, allocation, condition=case.condition)
    return how.step(allocation.runs[0][0]), exp(-rate), rate


def _convex(case: Case, how: Method, allocation: Allocation) -> Guarantee:
    if case.accelerated:  # without the factor 1 − 1/ω of the gap, in the unit of plain descent
        q, steps = allocation.runs[0]
        bound = accelerated_bound(how, q, steps, L=1.0, distance=1.0, gap=0.0)
    else:
        bound = convex_bound(how, allocation, L=1.0, distance=1.0, gap=0.0)
    return how.step(allocation.runs[0][0]), bound, 1 / bound


def _nonconvex(case: Case, how: Method, allocation: Allocation) -> Guarantee:
    bound = nonconvex_bound(how, allocation, L=1.0, gap=1.0)
    return how.step(allocation.runs[0][0]), bound, 1 / bound


def _stochastic(case: Case, how: Method, allocation: Allocation) -> Guarantee:
    eta0, bound = least_stochastic_bound(how, allocation, L=1.0, distance=1.0, noise=case.noise)
    return eta0, bound, 1 / bound


_GUARANTEES: dict[str, Callable[[Case, Method, Allocation], Guarantee]] = {
    STRONGLY_CONVEX: _strongly_convex,
    CONVEX: _convex,
    NONCONVEX: _nonconvex,
    STOCHASTIC: _stochastic,
}


def _planned(case: Case) -> Plan:
    options = [case.option(how, q) for how in case.methods for q in case.sizes(how)]
    best = _best(options)
    others = [
        _best(of) for name in ESTIMATORS if (of := [o for o in options if o.estimator == name])
    ]
    flatness = [
        _flatness(case, o) for o in sorted(others, key=lambda o: o.estimator != best.estimator)
    ]
    return Plan(
        dim=case.dim,
        budget=case.budget.limit,
        regime=case.regime,
        count=case.budget.count,
        difference=case.budget.difference.name,
        directions=case.directions,
        L=case.L,
        best=best,
        alternatives=tuple(replace(o, share=o.rate / best.rate) for o in options),
        flatness=tuple(flatness),
        bounded=REGIMES[case.regime],
        unit=UNITS[case.regime],
        step_unit="1/L" if case.L is None else "",
        assumptions=tuple(assumptions(case)),
        notes=tuple(notes(case, best, flatness)),
        advice=tuple(advice(case, flatness[0])),
        own_study=own_study(case),
        command=command(case, flatness) if case.studied == case else _planned(case.studied).command,
    )


def _best(options: list[Option]) -> Option:
    """The highest rate; among equals the largest block that leaves ten steps, else the smallest."""
    top = max(option.rate for option in options)
    equal = sorted((o for o in options if o.rate >= top * (1 - EQUAL)), key=lambda o: o.q)
    return next((o for o in reversed(equal) if o.steps >= ENOUGH), equal[0])


def _flatness(case: Case, best: Option) -> Flatness:
    """How far q can be moved from the best either way, on a fine logarithmic grid."""
    how = method(best.estimator, case.dim, case.directions)

    def last_flat(sizes: Iterable[int]) -> int:
        near = takewhile(lambda q: case.option(how, q).rate >= (1 - WITHIN) * best.rate, sizes)
        return max(near, key=lambda q: abs(q - best.q), default=best.q)

    return Flatness(
        estimator=best.estimator,
        q=best.q,
        low=last_flat(reversed(geometric(1, best.q, points=129))),
        high=last_flat(geometric(best.q, case.most, points=129)),
        within=WITHIN,
    )
