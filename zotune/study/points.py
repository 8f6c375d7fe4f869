"""The points of a study's space: grids, distributions, and infeasible combinations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from zotune.choosing import resolve
from zotune.config import Config
from zotune.core.budget import Budget
from zotune.core.differences import get_difference
from zotune.directions import DIRECTIONS as DIRECTION_KINDS
from zotune.errors import ConfigError, nearest
from zotune.estimators import ESTIMATORS
from zotune.methods import METHODS
from zotune.objectives import PROBLEMS, build_any_problem
from zotune.steps import AUTO, STEPS, THEORY, StepRule
from zotune.updates import UPDATES

if TYPE_CHECKING:
    import numpy as np

Point = dict[str, Any]
"""One value for every key of the space."""

MOST = 10_000
"""Maximum number of combinations of a grid."""


@dataclass(frozen=True)
class Distribution:
    """A distribution over the values of one key, as written in a study file.

    ``[low, high]`` includes both ends, for whole numbers too.
    """

    kind: str
    values: tuple[Any, ...]

    @property
    def ends(self) -> list[Any]:
        """All choices, or both ends of the range."""
        return list(self.values)

    def draw(self, rng: np.random.Generator) -> Any:
        """One value."""
        if self.kind == "choice":
            return self.values[int(rng.integers(len(self.values)))]
        low, high = self.values
        if self.kind == "uniform":
            return float(rng.uniform(low, high))
        if self.kind == "randint":
            return int(rng.integers(low, high + 1))
        if self.kind == "loguniform":
            return float(math.exp(rng.uniform(math.log(low), math.log(high))))
        return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))))

    def domain(self) -> Any:
        """The same for Ray Tune, whose integer ranges exclude the upper end."""
        from ray import tune

        if self.kind == "choice":
            return tune.choice(list(self.values))
        low, high = self.values
        whole = self.kind in WHOLE
        return getattr(tune, self.kind)(low, high + 1 if whole else high)


RANGES = ("uniform", "loguniform", "randint", "lograndint")
WHOLE = ("randint", "lograndint")
SAMPLERS = ("choice", *RANGES)
Axis = list[Any] | Distribution
"""The values of one key: a grid, or a distribution."""


def parse_axis(key: str, written: Any) -> Axis:
    """Parse one key of the space; raises an error if it is invalid."""
    if isinstance(written, Distribution):
        return written
    if isinstance(written, list | tuple):
        return _values(f"the list of {key}", list(written))
    if not isinstance(written, Mapping):
        raise ConfigError(
            f"{key} must be a list (a grid) or one of {{{': …}, {'.join(SAMPLERS)}: …}} in space, "
            f"got {written!r}; a single value belongs under fixed"
        )
    if len(written) != 1:
        raise ConfigError(f"{key} takes one distribution, got {len(written)}: {dict(written)!r}")
    ((kind, values),) = written.items()
    if kind not in SAMPLERS:
        raise ConfigError(
            f"{kind!r} is not a distribution{nearest(str(kind), SAMPLERS)}; "
            f"known: {', '.join(SAMPLERS)}"
        )
    if kind == "choice":
        if not isinstance(values, list | tuple):
            raise ConfigError(f"choice of {key} must be a list, got {values!r}")
        return Distribution(kind, tuple(_values(f"the choice of {key}", list(values))))
    return Distribution(kind, _ends(key, kind, values))


def _values(what: str, values: list[Any]) -> list[Any]:
    if not values:
        raise ConfigError(f"{what} must have at least one value, got []")
    twice = [value for at, value in enumerate(values) if value in values[:at]]
    if twice:
        raise ConfigError(f"{what} has {twice[0]!r} twice; keep one")
    return values


def _ends(key: str, kind: str, values: Any) -> tuple[Any, Any]:
    """Both ends of a range, in order and of the kind that the distribution needs."""
    number = int if kind in WHOLE else (int, float)
    fits = (
        isinstance(values, list | tuple)
        and len(values) == 2
        and all(isinstance(v, number) and not isinstance(v, bool) for v in values)
        and all(math.isfinite(v) for v in values)
        and values[0] < values[1]
        and (not kind.startswith("log") or values[0] > 0)
    )
    if not fits:
        what = "whole numbers" if kind in WHOLE else "numbers"
        above = " above 0" if kind.startswith("log") else ""
        raise ConfigError(f"{kind} of {key} must be [low, high], two {what}{above}, got {values!r}")
    return values[0], values[1]


DECISIVE = ("method", "estimator", "q", "directions", "difference", "step", "eta", "problem.dim")
"""Settings that determine whether a run is feasible."""


@dataclass(frozen=True, eq=False)
class Subspace:
    """One space of a study: lists, whose values are combined, and distributions."""

    axes: Mapping[str, Axis]

    @property
    def grid(self) -> dict[str, list[Any]]:
        """Keys that are lists."""
        return {key: axis for key, axis in self.axes.items() if isinstance(axis, list)}

    @property
    def sampled(self) -> dict[str, Distribution]:
        """Keys that are distributions."""
        return {key: axis for key, axis in self.axes.items() if isinstance(axis, Distribution)}

    @property
    def ends(self) -> dict[str, list[Any]]:
        """The extreme values of distributions that decide whether a run is feasible."""
        return {
            key: sampler.ends if key in DECISIVE else sampler.ends[:1]
            for key, sampler in self.sampled.items()
        }

    def has(self, point: Mapping[str, Any]) -> bool:
        """Whether a point is one of the combinations of its lists."""
        grid = self.grid
        return grid.keys() == point.keys() and all(point[key] in grid[key] for key in grid)

    def draw(self, rng: np.random.Generator) -> Point:
        """A value of every distribution."""
        return {key: sampler.draw(rng) for key, sampler in self.sampled.items()}


def key_of(point: Mapping[str, Any]) -> str:
    """A key of a point, whatever the order of its settings."""
    return repr(sorted(point.items()))


def combinations(axes: Mapping[str, Sequence[Any]]) -> Iterator[Point]:
    """Every combination; the first key changes fastest, so that neighbours cost about the same."""
    keys = list(axes)
    for values in product(*(axes[key] for key in reversed(keys))):
        yield dict(zip(keys, reversed(values), strict=True))


def size(axes: Mapping[str, Sequence[Any]]) -> int:
    """How many combinations there are."""
    return math.prod(len(values) for values in axes.values())


def pair_problem(point: Mapping[str, Any]) -> str | None:
    """Why a step rule does not support an update; None if it does."""
    step, update = point.get("step"), str(point.get("update"))
    if step == THEORY and update in UPDATES and not UPDATES[update].linear:
        return f"there is no theory of the step of {update}"
    return None


def block_problem(config: Config) -> str | None:
    """Why blocks of this size are infeasible (dimension or budget); None if they are feasible."""
    dim, config = dimension(config.problem), resolved(config)
    if config.replays:
        return method_problem(config, dim)
    q, most = config.block_rule.next(0, None), config.block_rule.most
    for what, limited in (
        (config.estimator, ESTIMATORS[config.estimator].at_most_dim),
        (config.directions, DIRECTION_KINDS[config.directions].orthogonal),
    ):
        if limited and most > dim:
            return f"{what} needs q ≤ d, and d = {dim}"
    budget = Budget(config.budget, config.count, get_difference(config.difference))
    tried = 1 if STEPS[config.step].most_trials else 0
    if (cost := budget.cost(q) + tried) > budget.limit:
        return f"one step costs {cost} of a budget of {budget.limit} {config.count}"
    return None


def method_problem(config: Config, dim: int) -> str | None:
    """Why a budget is too small for the first step of a method; None if it is not."""
    needed = METHODS[config.method].needs(dim)
    if config.budget < needed:
        return f"the first step of {config.method} needs {needed} of a budget of {config.budget}"
    return None


def check_step(config: Config) -> None:
    """Raise an error if a step rule lacks a required setting."""
    dim, config = dimension(config.problem), resolved(config)
    if config.replays:
        return
    if over_weights(config.problem):
        from zotune.weights.memory import refuse_lean_vectors

        refuse_lean_vectors(config)
    estimator, directions = ESTIMATORS[config.estimator], DIRECTION_KINDS[config.directions]
    q = config.block_rule.next(0, None)
    rule = StepRule(config.step, config.eta, q, dim, estimator, directions)
    if rule.needs_smoothness and config.L is None and over_weights(config.problem):
        raise ConfigError(
            "step theory needs L, which is not estimated for the weights of a model; "
            "give L (with L: 1, eta is 1/L), or step: constant with eta"
        )


def resolved(config: Config) -> Config:
    """The configuration with every ``auto`` resolved."""
    if AUTO not in (config.estimator, config.q, config.update) and not config.replays:
        return config
    dim, batches = dimension(config.problem), over_weights(config.problem)
    return resolve(config, dim, batches=batches)[0]


def step_cost(config: Config) -> int:
    """Maximum cost of one step along a block of directions, per replicate."""
    config = resolved(config)
    budget = Budget(config.budget, config.count, get_difference(config.difference))
    return min(budget.limit, budget.cost(config.block_rule.most) + STEPS[config.step].most_trials)


def over_weights(problem: Mapping[str, Any]) -> bool:
    """Whether a problem is over the weights of a model."""
    return PROBLEMS[problem["name"]].weights


def dimension(problem: Mapping[str, Any]) -> int:
    """d of a problem's mapping; the problem is built only if it has no option ``dim``."""
    entry = PROBLEMS[problem["name"]]
    settings = entry.settings_of(problem)
    if settings is not None:
        return settings.dim
    if "dim" in entry.options:
        return int(problem.get("dim", entry.options["dim"]))
    return _built_dimension(json.dumps(problem, sort_keys=True))


def knows_smoothness(problem: Mapping[str, Any]) -> bool:
    """Whether a problem knows its L; the problem is built to find out, unless it is a model."""
    return not over_weights(problem) and _smooth(json.dumps(problem, sort_keys=True))


@cache
def _smooth(problem: str) -> bool:
    return getattr(build_any_problem(json.loads(problem)), "L", None) is not None


@cache
def _built_dimension(problem: str) -> int:
    return build_any_problem(json.loads(problem)).dim


def located(problem: Mapping[str, Any]) -> dict[str, Any]:
    """A problem's mapping with absolute paths."""
    settings = PROBLEMS[problem["name"]].settings_of(problem)
    if settings is None:
        return dict(problem)
    return {"name": problem["name"], **settings.located()}
