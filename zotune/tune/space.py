"""A search space over estimator, q and step size for any Tuner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ray import tune

from zotune.config import parse_config
from zotune.core.budget import COUNTS, EVALUATIONS, Budget, Ledger
from zotune.core.differences import FORWARD, get_difference
from zotune.directions import DIRECTIONS as DIRECTION_KINDS
from zotune.errors import ConfigError, one_of
from zotune.estimators import ESTIMATORS
from zotune.objectives import positive_int, problem_mapping
from zotune.steps import AUTO, STEPS, THEORY
from zotune.updates import PLAIN, UPDATES

FACTORS = (0.25, 16.0)
"""Range of multiples of the theory step that are searched if L is known."""
INVERSE_SMOOTHNESS = (1e-6, 1e2)
"""Range of 1/L that is searched if L is not known."""

Range = Sequence[Any] | tuple[float, float] | None


def search_space(
    *,
    dim: int,
    budget: int,
    problem: str | Mapping[str, Any] | None = None,
    estimators: Sequence[str] | str | None = None,
    q: Range = None,
    eta: tuple[float, float] | None = None,
    L: float | str | None = None,
    directions: Sequence[str] | None = None,
    difference: str | Sequence[str] = FORWARD,
    mu: tuple[float, float] | None = None,
    updates: Sequence[str] | str = PLAIN,
    steps: Sequence[str] | str = THEORY,
    count: str = EVALUATIONS,
    **fixed: Any,
) -> dict[str, Any]:
    """A Tune ``param_space`` in which eta has the same scale for every estimator and q.

    The step size is ``eta`` times the theory step of the estimator, the directions and q, so that
    one value of eta is as large a step for averaging with one query as for projection with a full
    block.

    Args:
        dim: dimension of the objective, an upper bound of q.
        budget: budget of a trial, which limits q, too.
        problem: a problem's name or mapping, for ``ZOTrainable``; leave it out for your own.
        estimators: names to choose from; default: all that have a theory step.
        q: a list to choose from, or a pair (lowest, highest) drawn log-uniformly.
        eta: the range of the factor, drawn log-uniformly.
        L: smoothness. None: the objective's own, or estimated. ``"search"``: unknown; L is set to 1
            and eta, which is then 1/L, is searched over a wider range.
        directions: kinds to choose from; default: gaussian.
        difference: forward, central, or both.
        mu: a range drawn log-uniformly; default: a value by dtype.
        updates: names to choose from: sgd, nesterov, lbfgs, …
        steps: step rules to choose from. Under ``auto`` eta is a factor of the step that the rule
            finds, and is searched around 1 as under ``theory``.
        count: the unit of the budget, evaluations or directions.
        fixed: further settings: replicates, seed, report_every, …

    Returns:
        A mapping for ``tune.Tuner(…, param_space=…)``, for random search, Optuna, ASHA and PBT.

    >>> import zotune
    >>> space = zotune.search_space(dim=100, budget=1000, estimators=["avg"], q=[1, 10])
    >>> space["estimator"], space["q"].categories, space["step"]
    ('avg', [1, 10], 'theory')
    """
    dim, budget = positive_int("dim", dim), positive_int("budget", budget)
    differences = [difference] if isinstance(difference, str) else list(difference)
    searched = L == "search"
    low, high = eta or (INVERSE_SMOOTHNESS if searched else FACTORS)
    space: dict[str, Any] = {
        "estimator": _choice("estimator", _listed(estimators) or _with_theory(), ESTIMATORS),
        "q": _block_sizes(q, _most(dim, budget, one_of("count", count, COUNTS), differences)),
        "difference": _choice("difference", differences, ("forward", "central")),
        "update": _choice("update", _listed(updates) or (), UPDATES),
        "step": _choice("step", _with_factors(_listed(steps) or (), _listed(updates) or ()), STEPS),
        "eta": tune.loguniform(low, high),
        "budget": budget,
        "count": count,
    }
    if problem is not None:
        space["problem"] = problem_mapping(problem)
    if directions is not None:
        space["directions"] = _choice("directions", directions, DIRECTION_KINDS)
    if mu is not None:
        space["mu"] = tune.loguniform(*mu)
    if L is not None:
        space["L"] = 1.0 if searched else L
    parse_config({"budget": budget} | fixed)
    return space | fixed


def _with_factors(steps: Sequence[str], updates: Sequence[str]) -> Sequence[str]:
    """Step rules under which one range of eta means the same for all updates."""
    lengths = [name for name in steps if STEPS[name].default_eta != 1]
    if lengths:
        raise ConfigError(
            f"steps must take eta as a factor, as {THEORY} and {AUTO} do, and {lengths[0]!r} takes "
            "a length; put step and eta into a space of your own"
        )
    bent = [name for name in updates if not UPDATES[name].linear]
    if THEORY in steps and bent:
        raise ConfigError(f"{UPDATES[bent[0]].no_theory}; give steps={AUTO!r}")
    return steps


def _with_theory() -> list[str]:
    return [name for name, entry in ESTIMATORS.items() if entry.moments is not None]


def _most(dim: int, budget: int, count: str, differences: list[str]) -> int:
    """The largest block that the dimension and the budget allow under every difference."""
    blocks = [Budget(budget, count, get_difference(d)).block(Ledger(), dim) for d in differences]
    if min(blocks) < 1:
        raise ConfigError(f"budget={budget} {count} does not cover one direction; raise it")
    return min(blocks)


def _block_sizes(q: Range, most: int) -> Any:
    if q is None:
        q = (1, most)
    if isinstance(q, tuple) and len(q) == 2:
        low, high = int(q[0]), int(min(q[1], most))
        if not 1 <= low <= high:
            raise ConfigError(
                f"q must lie between 1 and {most} (the dimension and the budget allow no more), "
                f"got {q}"
            )
        return low if low == high else tune.lograndint(low, high + 1)
    too_large = [size for size in q if not 1 <= size <= most]
    if too_large:
        raise ConfigError(
            f"q must lie between 1 and {most} (the dimension and the budget allow no more), "
            f"got {too_large[0]}"
        )
    return q[0] if len(q) == 1 else tune.choice(list(q))


def _listed(names: Sequence[str] | str | None) -> Sequence[str] | None:
    """Names as a list; a single name becomes a list of one."""
    return [names] if isinstance(names, str) else names


def _choice(kind: str, names: Sequence[str], known: Any) -> Any:
    """A single name, or a Tune choice of several."""
    checked = [one_of(kind, name, known) for name in names]
    return checked[0] if len(checked) == 1 else tune.choice(checked)
