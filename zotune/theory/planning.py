"""``plan``: choose estimator, block size and step size for a budget by the theory.

It compares the bounds of ``zotune.theory`` over all estimators with known moments and all block
sizes. It needs neither a function nor torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any

from zotune.core.budget import EVALUATIONS
from zotune.core.differences import FORWARD
from zotune.estimators import ESTIMATORS
from zotune.theory import (
    CONVEX,
    EQUAL,
    NONCONVEX,
    REGIMES,
    STOCHASTIC,
    STRONGLY_CONVEX,
    geometric,
    method,
)
from zotune.theory.plan_case import Case, Option, case_of
from zotune.theory.plan_words import advice, assumptions, command, notes, own_study
from zotune.updates import PLAIN

WITHIN = 0.05
"""Relative loss of rate that defines the flat range of block sizes."""

UNITS = {
    STRONGLY_CONVEX: "(f(x_0) − f*)",
    CONVEX: "(L ‖x_0 − x*‖² + 2 (f(x_0) − f*))",
    NONCONVEX: "L (f(x_0) − f*)",
    STOCHASTIC: "L ‖x_0 − x*‖²",
}
"""The unit of the bound of each regime."""

ENOUGH = 10
"""Among equally good options, one with at least this many steps is preferred."""


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
    """The best option, its alternatives, and their assumptions."""

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
    """One per estimator; that of the best one first."""
    bounded: str
    """The quantity that is bounded."""
    unit: str
    """The unit of the bound."""
    step_unit: str
    """``1/L`` if L is not given, else empty."""
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    command: str
    """The command of a study that measures the effect of tuning the step."""
    advice: tuple[str, ...] = ()
    """Advice in words: recommended block sizes, memory, time."""
    own_study: str = ""
    """The command that creates a study of the user's own function."""

    @property
    def estimator(self) -> str:
        """The best estimator."""
        return self.best.estimator

    @property
    def q(self) -> int:
        """Its number of directions per step."""
        return self.best.q

    @property
    def steps(self) -> int:
        """The number of steps within the budget."""
        return self.best.steps

    @property
    def step(self) -> float:
        """The step size, multiplied by L if L is not given."""
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
    """Choose estimator, q and step size by the theory alone, without evaluations.

    Args:
        dim: d.
        budget: the budget, in the unit of ``count``.
        regime: strongly-convex, convex, nonconvex or stochastic.
        count: evaluations (every call of f) or directions (as the paper counts).
        difference: forward (q + 1 evaluations a step) or central (2q).
        directions: gaussian, sphere, rademacher, coordinate or orthogonal.
        L: Lipschitz constant of the gradient; without it, the step is a multiple of 1/L.
        condition: L/γ, above 1, for the strongly convex regime only.
        noise: σ in multiples of L ‖x_0 − x*‖, for the stochastic regime only.
        update: sgd, or nesterov, whose rate is known for convex functions. For any other update
            the plan is that of sgd, with a note.

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
    """The option with the highest rate; ties: the largest block with ten steps, or the smallest."""
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
