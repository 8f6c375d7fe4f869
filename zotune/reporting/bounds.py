"""The theory's bounds for curves of a report, or a sentence on why there is none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from zotune.core.budget import Budget
from zotune.core.differences import get_difference
from zotune.errors import ConfigError, ZotuneError
from zotune.estimators import ESTIMATORS
from zotune.steps import SQRT_DECAY, THEORY
from zotune.theory import (
    CONVEX,
    NONCONVEX,
    STOCHASTIC,
    STRONGLY_CONVEX,
    Allocation,
    Estimation,
    convex_bound,
    method,
    nonconvex_bound,
    stochastic_bound,
    strongly_convex_bound,
)

if TYPE_CHECKING:
    from zotune.objectives import Objective
    from zotune.results.configurations import Configuration

POINTS = 80
"""Maximum number of points at which a bound is computed."""
PENALTIES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""Comparators for a loss without a minimiser, by their penalties as multiples of L."""
FLAT = 0.1
"""A bound that decreases by less than this share is called flat (vacuous)."""
MEASURES = {
    STRONGLY_CONVEX: "gap",
    CONVEX: "gap",
    NONCONVEX: "grad_norm2",
    STOCHASTIC: "average_gap",
}
"""The measure that each regime's theorem bounds."""
RECORDED = {NONCONVEX: "grad_norm2", STOCHASTIC: "average_loss"}
"""The column that it is computed from, if functions may lack it."""


@dataclass(frozen=True)
class Bound:
    """A guarantee against spent budget."""

    regime: str
    spent: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def measure(self) -> str:
        """The measure that it bounds."""
        return MEASURES[self.regime]


class NoBoundError(ZotuneError, ValueError):
    """Raised with the reason if there is no bound."""


def bound_of(series: Configuration) -> Bound:
    """The bound for a configuration.

    Raises:
        NoBoundError: if there is none, with the reason in words.
    """
    config = series.config
    if series.last("gap") is None:
        raise NoBoundError("f* is not known, so no bound can be drawn")
    if not _is_covered(config):  # checked first, to avoid building the problem
        raise NoBoundError(
            "the theorems are about the step size of the theory (step: theory with eta: 1; "
            "sqrt-decay through mini-batches), and these runs took another"
        )
    objective = _facts(series)
    regime = regime_of(objective)
    if (needed := RECORDED.get(regime)) and needed not in series.points:
        raise NoBoundError(
            f"the {regime} bound is about {needed}, which the function's records do not hold"
        )
    guarantee = _GUARANTEES[regime](series, objective)
    if series.q is None:
        raise NoBoundError(f"the theorem is about a fixed q, and here it is {series.block}")
    if config["estimator"] not in ESTIMATORS:
        raise NoBoundError(f"no theorem is about the estimator {config['estimator']}")
    q, budget = series.q, _budget(config)
    how = method(config["estimator"], objective.dim, config["directions"])
    grid = [k * series.budget // POINTS for k in range(1, POINTS + 1)]
    spent = [at for at in grid if at >= budget.cost(q)]
    try:
        values = [guarantee(how, _allocation(q, at, budget)) for at in spent]
    except ConfigError as error:
        raise NoBoundError(str(error)) from None
    return Bound(regime, tuple(spent), tuple(values))


@dataclass(frozen=True)
class Recorded:
    """The properties of a problem that the strongly convex theorem needs."""

    dim: int
    L: float
    gamma: float
    stochastic: bool = False


def _facts(series: Configuration) -> Objective | Recorded:
    """The problem of a configuration; built only if the records are not sufficient."""
    problem, gamma, L = series.config.get("problem"), series.gamma, series.last("L")
    dim = problem.get("dim") if isinstance(problem, Mapping) else None
    given = series.config.get("L") is not None or series.estimated_smoothness is not None
    if gamma is None or L is None or dim is None or given:
        return _objective(problem, series)
    return Recorded(int(dim), L, gamma)


def _is_covered(config: Mapping[str, Any]) -> bool:
    """Whether some theorem covers the step of the configuration."""
    step, eta = config.get("step"), config.get("eta")
    return step == SQRT_DECAY or (step == THEORY and eta in (None, 1))


def regime_of(objective: Objective | Recorded) -> str:
    """The regime of a problem, by its known properties."""
    if objective.stochastic:
        return STOCHASTIC
    if objective.gamma is not None:
        return STRONGLY_CONVEX
    return CONVEX if hasattr(objective, "comparator") else NONCONVEX


def _objective(problem: Any, series: Configuration) -> Objective:
    from zotune.objectives import PROBLEMS

    if not isinstance(problem, Mapping) or problem.get("name") not in PROBLEMS:
        raise NoBoundError(f"the function is not one of zotune's problems, and {_lacking(series)}")
    return _built(json.dumps(problem, sort_keys=True))


def _lacking(series: Configuration) -> str:
    """What a bound for a function of the user's needs, and the records do not have."""
    if series.estimated_smoothness is not None:
        return "its L is only estimated"
    known = series.last("L")
    if known is None:
        return "its L is not known"
    return f"whether it is convex is not recorded (its L is: {known:g})"


@cache
def _built(problem: str) -> Objective:
    from zotune.objectives import build_problem

    return build_problem(json.loads(problem))


def _budget(config: Mapping[str, Any]) -> Budget:
    difference = get_difference(config["difference"])
    return Budget(int(config["budget"]), config["count"], difference)


def _allocation(q: int, spent: int, budget: Budget) -> Allocation:
    """The blocks of a run up to a spent budget; only the last one of the run may be smaller."""
    if spent == budget.limit:
        return Allocation.constant(q, budget)
    return Allocation(((q, spent // budget.cost(q)),))


Guarantee = Callable[[Estimation, Allocation], float]


def _smoothness(config: Mapping[str, Any], objective: Objective | Recorded) -> float:
    """The L of the step, if the theorems hold with it."""
    if config.get("step") != THEORY or config.get("eta") not in (None, 1):
        raise NoBoundError(
            "the theorem is about the step size of the theory (step: theory, eta: 1), "
            "and these runs took another"
        )
    known, given = objective.L, config.get("L")
    if known is None:
        taken = "an estimated one" if given is None else f"L = {given:g}"
        raise NoBoundError(f"the function does not know its L, and these runs took {taken}")
    if given is not None and given < known:
        raise NoBoundError(f"the theorem needs L ≥ {known:.4g}, and these runs were given {given}")
    return float(given or known)


def _strongly_convex(series: Configuration, objective: Objective | Recorded) -> Guarantee:
    L, gamma = _smoothness(series.config, objective), objective.gamma or 0.0
    gap = _start_gap(series)
    return lambda how, blocks: strongly_convex_bound(how, blocks, L=L, gamma=gamma, gap=gap)


def _convex(series: Configuration, objective: Objective) -> Guarantee:
    """The least of the bounds for several comparators z, the start among them; each one holds."""
    L, gap = _smoothness(series.config, objective), _start_gap(series)
    points = [(gap, 0.0), *_comparators(objective)]

    def guarantee(how: Estimation, blocks: Allocation) -> float:
        return min(
            value + convex_bound(how, blocks, L=L, distance=distance, gap=gap)
            for value, distance in points
        )

    return guarantee


@cache
def _comparators(objective: Any) -> list[tuple[float, float]]:
    """f(z) − inf f and ‖x_0 − z‖ for each comparator z."""
    found = []
    for penalty in PENALTIES:
        z = objective.comparator(penalty * objective.L)
        distance = float((z.point - objective.start()).norm())
        found.append((z.value - objective.minimum, distance))
    return found


def _nonconvex(series: Configuration, objective: Objective) -> Guarantee:
    L, gap = _smoothness(series.config, objective), _start_gap(series)
    return lambda how, blocks: nonconvex_bound(how, blocks, L=L, gap=gap)


def _stochastic(series: Configuration, objective: Any) -> Guarantee:
    eta0 = series.config.get("eta")
    if series.config.get("step") != SQRT_DECAY or eta0 is None:
        raise NoBoundError(
            "the theorem is about steps of eta/√(t+1) (step: sqrt-decay), and these runs took other"
        )
    known = {"L": objective.batch_L, "noise": objective.noise}
    known["distance"] = float((objective.start() - objective.optimum).norm())
    return lambda how, blocks: stochastic_bound(
        how, blocks, eta0=float(eta0), **known, rescaled=True
    )


_GUARANTEES: dict[str, Callable[[Configuration, Any], Guarantee]] = {
    STRONGLY_CONVEX: _strongly_convex,
    CONVEX: _convex,
    NONCONVEX: _nonconvex,
    STOCHASTIC: _stochastic,
}


def _start_gap(series: Configuration) -> float:
    """The recorded f(x_0) − f*, because a report must not call the user's function."""
    points = series.points
    if points["spent"].iloc[0] != 0:
        raise NoBoundError("the records do not begin at the start of the run")
    return float(points["gap"].iloc[0])


def bounds_of(series: Sequence[Configuration]) -> tuple[dict[int, Bound], list[str]]:
    """Bounds by the index of their series, and reasons why others have none."""
    found, reasons = {}, []
    for at, one in enumerate(series):
        try:
            found[at] = bound_of(one)
        except NoBoundError as reason:
            reasons.append(str(reason))
    return found, list(dict.fromkeys(reasons))


_SAYS = {
    STRONGLY_CONVEX: "Dashed: the strongly convex bound on E f(x_T) − f*, at the theory's step.",
    CONVEX: "Dashed: the convex bound on E f(x_T) − f*, at the theory's step; the loss has no "
    "minimiser, so it is the least over several points that the theorem may compare with.",
    NONCONVEX: "Dashed: the non-convex bound on the least E‖∇f(x_t)‖², at the theory's step. The "
    "theorem wants an L that holds everywhere; where a problem has none, as Rosenbrock, L is the "
    "curvature at the start, and the line is a yardstick, not a guarantee.",
    STOCHASTIC: "Dashed: the stochastic bound on E f(x̄_T) − f* of the averaged iterate, for first "
    "steps up to the theorem's cap.",
}


def notes_on(series: Sequence[Configuration], bounds: Mapping[int, Bound]) -> list[str]:
    """Notes that explain the dashed lines."""
    notes = [_SAYS[regime] for regime in dict.fromkeys(b.regime for b in bounds.values())]
    falls = [1 - bound.values[-1] / bound.values[0] for bound in bounds.values()]
    if max(falls) < FLAT:
        notes.append(
            f"The bound falls by {max(falls):.1g} of its start over the whole budget"
            f"{_condition(series)}: a flat line, true and of no use here."
        )
    elif len(bounds) < len(series):
        notes.append("Where no line is dashed, the theorem does not cover the step that was taken.")
    return notes


def _condition(series: Sequence[Configuration]) -> str:
    objective = _facts(series[0])
    if objective.L is None or objective.gamma is None:
        return ""
    return f", because L/γ = {objective.L / objective.gamma:.2g}"
