"""The configuration of a run: the same settings in Python, YAML, trials and MLflow params."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from zotune import blocksizes
from zotune.core.budget import COUNTS, EVALUATIONS
from zotune.core.differences import DIFFERENCES, FORWARD
from zotune.core.grid import GRID_POINTS
from zotune.core.settings import from_tune
from zotune.directions import DIRECTIONS as DIRECTION_KINDS
from zotune.errors import ConfigError, nearest, one_of
from zotune.estimators import ESTIMATORS
from zotune.methods import BLOCKS, METHODS
from zotune.steps import AUTO, CONSTANT, LEVEL, SCHEDULES, STEPS, THEORY
from zotune.updates import PLAIN, UPDATES, WITH_MOMENTUM, Update

NOT_OF_THE_RUN = {
    "budget",
    "report_every",
    "curve",
    "diagnostics",
    "block_bytes",
    "memory",
    "workers",
}
"""Settings that may change when a run is continued."""
CHOICES = ("estimator", "q", "update", "step")
"""Settings that are chosen automatically unless given."""
OF_BLOCKS = (
    *("directions", "difference", "mu", "eta", "L", "schedule", "warmup", "clip", "momentum"),
)
"""Settings of steps along blocks of directions, which other methods do not have. A value other than
the default means ``method: blocks``."""
NOT_TYPED = ("problem", "replicate", "curve")
"""Settings that users give elsewhere, or not at all."""
RECORDED = "recorded"
"""Validation context in which names of registered entries are not looked up."""
REPORTS = 16
"""Default number of rows that a run reports."""
FAST, LEAN = "fast", "lean"
MEMORIES = (AUTO, FAST, LEAN)
SEEN, ALL = "seen", "all"
NUMBERS = {
    *("mu", "eta", "L", "budget", "replicates", "replicate", "seed", "report_every"),
    *("points", "scale", "workers"),
    *("block_bytes", "warmup", "clip", "momentum"),
}
FOR_WEIGHTS = ("embedding_rows", "memory", "keep_best")
"""Settings for models only; for other problems they must have their defaults."""


@dataclass(frozen=True)
class Or:
    """The names of a registry and one more; the registry is read lazily."""

    name: str
    others: Mapping[str, Any]

    def __iter__(self) -> Iterator[str]:
        return iter((self.name, *self.others))


NAMED: dict[str, Iterable[str]] = {
    "method": METHODS,
    "estimator": Or(AUTO, ESTIMATORS),
    "directions": DIRECTION_KINDS,
    "difference": DIFFERENCES,
    "update": Or(AUTO, UPDATES),
    "step": STEPS,
    "count": COUNTS,
    "schedule": SCHEDULES,
    "embedding_rows": (SEEN, ALL),
    "memory": MEMORIES,
}
"""Settings whose values are names, with the allowed names."""


class Config(BaseModel):
    """All settings of a run, without the objective itself."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    problem: dict[str, Any] = Field(default_factory=dict)
    """``name`` and options of the problem."""
    method: str = AUTO
    """How the budget is spent; settings of blocks that are given mean blocks."""
    estimator: str = AUTO
    """What makes a gradient of the differences."""
    q: Any = AUTO
    """Directions a step; auto, or a rule: {rule: growth, …}, {rule: norm-test, …}."""
    directions: str = "gaussian"
    """Along which the function is probed."""
    difference: str = FORWARD
    """forward: q + 1 evaluations a step; central: 2q."""
    mu: float | None = Field(None, gt=0)
    """Radius of the differences; None: by dtype, 1e-6 in float64."""
    update: str = AUTO
    """How the estimate moves the point."""
    step: str = AUTO
    """The rule of the step size; if it is not given, L means theory, and eta without L constant."""
    eta: float | None = Field(None, gt=0)
    """The step itself under constant, the first under sqrt-decay, a factor elsewhere."""
    bounds: tuple[Any, Any] | None = None
    """Lower and upper bounds of x, numbers or vectors; points and probes stay inside."""
    scale: float | None = Field(None, gt=0)
    """How far coordinates may be expected to move (auto); None: 1, or their size at the start."""
    L: float | None = Field(None, gt=0)
    """Smoothness for the theory step; None: the problem's, or estimated."""
    budget: int = Field(ge=1)
    """What each replicate may spend; never overspent."""
    count: str = EVALUATIONS
    """What the budget limits: evaluations or directions."""
    replicates: int = Field(1, ge=1)
    """Independent runs, as rows of one tensor."""
    replicate: int = Field(0, ge=0)
    """Index of the first."""
    seed: int = 0
    """Of the directions; configurations with one seed share their draws."""
    workers: int = Field(0, ge=0)
    """Ray workers that share the evaluations of a run; 0: all in one process."""
    report_every: int | None = Field(None, ge=1)
    """Spent budget between two rows; None: a sixteenth of the budget."""
    points: int = Field(GRID_POINTS, ge=2, le=GRID_POINTS)
    """Points of a curve, at most."""
    block_bytes: int = Field(2**29, ge=1)
    """Memory that a block of directions may take; past it, directions are replayed in parts."""
    schedule: str = LEVEL
    """How the step shrinks with spent budget: constant, linear or cosine."""
    warmup: float = Field(0.0, ge=0, lt=1)
    """The share of the budget over which the step first rises."""
    clip: float | None = Field(None, gt=0)
    """Differences v are clipped to ±clip."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Momentum coefficient; above 0, ``update: sgd`` is ``update: momentum``."""
    embedding_rows: str = SEEN
    """seen: rows that a step's batch does not use are no part of it; all: noise moves them too."""
    memory: str = AUTO
    """fast: one more copy of the trained weights; lean: a part of a layer; auto: by free memory."""
    keep_best: bool | None = None
    """Whether the weights with the lowest validation loss are kept beside the last, in memory and
    in checkpoints; None: where they take at most 64 MiB."""
    curve: bool = False
    """Whether result rows carry their curve points with them, for a callback."""
    diagnostics: bool = False
    """Whether curves also carry snr, cosine and unmoved."""

    @field_validator("problem", mode="before")
    @classmethod
    def _problem_is_a_mapping(cls, value: object) -> object:
        if isinstance(value, Mapping):
            return {key: from_tune(option) for key, option in value.items()}
        return {"name": value} if isinstance(value, str) else value

    @field_validator("*", mode="before")
    @classmethod
    def _number_is_a_number(cls, value: object, info: Any) -> object:
        if info.field_name in NUMBERS and isinstance(value, bool | str):
            raise ValueError(f"{info.field_name} must be a number, got {value!r}")
        return value

    @field_validator("q", mode="before")
    @classmethod
    def _q_is_a_size_or_a_rule(cls, value: object, info: ValidationInfo) -> object:
        return value if info.context == RECORDED else blocksizes.checked(value)

    @field_validator(*NAMED)
    @classmethod
    def _name_is_known(cls, value: str, info: Any) -> str:
        if info.context == RECORDED:
            return value
        return one_of(info.field_name, value, NAMED[info.field_name])

    @property
    def reports_at(self) -> int:
        """``report_every`` with its default filled in."""
        return self.report_every or max(1, self.budget // REPORTS)

    @property
    def identity(self) -> str:
        """A key of the settings that must be equal for two runs to agree as far as both go."""
        return json.dumps(self.model_dump(exclude=NOT_OF_THE_RUN), sort_keys=True)

    @model_validator(mode="before")
    @classmethod
    def _settings_of_blocks_mean_blocks(cls, data: Any) -> Any:
        """``method: blocks`` where settings of blocks are given, and no method."""
        if not isinstance(data, Mapping) or data.get("method") is not None:
            return data
        fields = cls.model_fields
        given = [key for key in (*CHOICES, *OF_BLOCKS) if data.get(key) is not None]
        if any(data[key] != fields[key].default for key in given):
            return {**data, "method": BLOCKS}
        return {key: value for key, value in data.items() if key != "method"}

    @model_validator(mode="after")
    def _settings_go_with_the_method(self, info: ValidationInfo) -> Config:
        if info.context == RECORDED or not (self.replays and self.asked):
            return self
        key = self.asked[0]
        raise ValueError(
            f"{key} is a setting of steps along blocks, which method {self.method!r} does not "
            f"take, got {key}={getattr(self, key)!r}; leave it out, or give method={BLOCKS!r}"
        )

    @model_validator(mode="after")
    def _theory_is_of_the_update(self, info: ValidationInfo) -> Config:
        if info.context == RECORDED:
            return self
        if self.step == THEORY and not self.named_update.linear:
            raise ValueError(f"{self.named_update.no_theory}; give step='constant' with eta")
        return self

    @field_validator("bounds", mode="before")
    @classmethod
    def _bounds_of_scipy(cls, value: Any) -> Any:
        """SciPy's ``Bounds`` has the two sides as ``lb`` and ``ub``."""
        if not (hasattr(value, "lb") and hasattr(value, "ub")):
            return value
        return np.asarray(value.lb).tolist(), np.asarray(value.ub).tolist()

    @field_validator("bounds")
    @classmethod
    def _bounds_leave_room(cls, value: Any) -> Any:
        if value is None:
            return None
        low, high = (_numbers("bounds", side) for side in value)
        if not all(a < b for a, b in zip(*np.broadcast_arrays(low, high), strict=True)):
            raise ValueError(
                f"bounds must be (low, high) with low below high everywhere, got {value!r}{PAIRS}"
            )
        return tuple(side.tolist() if side.size > 1 else float(side[0]) for side in (low, high))

    @property
    def asked(self) -> list[str]:
        """Settings of blocks that were given."""
        fields = type(self).model_fields
        return [key for key in (*CHOICES, *OF_BLOCKS) if getattr(self, key) != fields[key].default]

    @property
    def replays(self) -> bool:
        """Whether the method yields points, see ``Method.replays``; all do but ``blocks``."""
        return self.method != BLOCKS

    def box(self, dim: int) -> tuple[Any, Any] | None:
        """Lower and upper bounds as vectors."""
        if self.bounds is None:
            return None
        sides = [np.asarray(side, dtype=np.float64) for side in self.bounds]
        for side in sides:
            if side.size not in (1, dim):
                raise ConfigError(
                    f"bounds must be one number or {dim}, one a coordinate, got {side.size}"
                )
        return np.broadcast_to(sides[0], (dim,)), np.broadcast_to(sides[1], (dim,))

    @property
    def named_update(self) -> Update:
        """The update; ``sgd`` with ``momentum`` above 0 is the update of that name."""
        if self.update == AUTO:
            return UPDATES[PLAIN]
        return UPDATES[WITH_MOMENTUM if self.momentum and self.update == PLAIN else self.update]

    @property
    def block_rule(self) -> blocksizes.Rule:
        """The rule of the block size; ``auto`` is replaced before a run begins."""
        return blocksizes.rule_of(self.q)

    @property
    def goes_by_values(self) -> bool:
        """Whether steps depend on values; each replicate then has its own ledger."""
        return self.replays or STEPS[self.step].sees_values or self.block_rule.sees_values

    @property
    def replicate_indices(self) -> range:
        """Indices of the replicates."""
        return range(self.replicate, self.replicate + self.replicates)

    def refuse_settings_for_weights(self) -> None:
        """Raise an error if settings for models are given for another problem."""
        for key in FOR_WEIGHTS:
            default, value = Config.model_fields[key].default, getattr(self, key)
            if value != default:
                raise ConfigError(
                    f"{key} is a setting for the weights of a model and must stay {default!r} "
                    f"for this problem, got {value!r}; leave it out"
                )


def _numbers(what: str, value: Any) -> np.ndarray:
    """A number or a list of numbers, without NaN."""
    try:
        found = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        found = np.array([np.nan])
    if found.ndim != 1 or np.isnan(found).any():
        raise ValueError(f"{what} must be numbers or vectors of numbers, got {value!r}")
    return found


def with_step(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the step rule that a given L or eta implies.

    L is used by ``theory`` only, where eta is a factor of the step. An eta without an L is the step
    itself, as under ``constant``. To use eta as a factor of a searched step, give ``step="auto"``.

    >>> with_step({"eta": 0.1})["step"], with_step({"eta": 0.1, "L": 2})["step"]
    ('constant', 'theory')
    >>> with_step({"q": 4}), with_step({"eta": 0.1, "step": "auto"})["step"]
    ({'q': 4}, 'auto')
    """
    if "step" in settings:
        return dict(settings)
    if settings.get("L") is not None and _has_theory(settings):
        return {**settings, "step": THEORY}
    if settings.get("eta") is not None:
        return {**settings, "step": CONSTANT}
    return dict(settings)


def _has_theory(settings: Mapping[str, Any]) -> bool:
    """Whether the update and the estimator, if given, have a theory step."""
    update, estimator = settings.get("update"), settings.get("estimator")
    bent = update in list(UPDATES) and not UPDATES[str(update)].linear
    unknown = estimator in list(ESTIMATORS) and ESTIMATORS[str(estimator)].moments is None
    return not bent and not unknown


def recorded_config(settings: Mapping[str, Any]) -> Config:
    """The configuration in a checkpoint, which was checked before its run began.

    Its estimator and update may be a user's, and not imported where the run is only looked at.
    """
    return Config.model_validate(dict(settings), context=RECORDED)


def parse_config(settings: Mapping[str, Any]) -> Config:
    """A checked configuration; raises a one-line error about the first invalid setting."""
    try:
        return Config(**with_step(settings))
    except ValidationError as error:
        raise ConfigError(describe(error.errors()[0])) from None


def parted(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a run, and all other keys, such as hyperparameters of a user's function.

    >>> parted({"q": 4, "tag": "a"})
    ({'q': 4}, {'tag': 'a'})
    """
    known = {key: value for key, value in settings.items() if key in Config.model_fields}
    return known, {key: value for key, value in settings.items() if key not in known}


def misspelt(key: str) -> str | None:
    """The setting that a key is probably meant to be; None if no setting is that similar."""
    close = get_close_matches(str(key), Config.model_fields, n=1, cutoff=SIMILAR)
    return close[0] if close and key not in Config.model_fields else None


SIMILAR = 0.8
"""Similarity from which an unknown key is probably a misspelt setting."""
PAIRS = "; a pair for each coordinate is written as (all the low ends, all the high ends)"
WHOLE = "a whole number"
_ELSEWHERE = dict.fromkeys(("lr", "learning_rate", "step_size"), " (did you mean 'eta'?)")
_ELSEWHERE |= dict.fromkeys(
    ("maxiter", "maxfun", "max_nfev", "maxfevals", "n_trials", "max_evals", "nfev"),
    " (did you mean 'budget', the evaluations that may be spent?)",
)
_ELSEWHERE |= dict.fromkeys(
    ("n_jobs", "n_workers", "processes", "num_workers", "max_workers"), " (did you mean 'workers'?)"
)
_ELSEWHERE |= dict.fromkeys(
    ("popsize", "population", "population_size"),
    "; the points of a step are chosen, or are q=… directions",
)
_ELSEWHERE |= dict.fromkeys(("sigma", "sigma0"), " (did you mean 'scale'?)")
_ELSEWHERE |= {
    "tol": "; a run ends at its budget, at target=…, by ftol=… or xtol=…, or after seconds=…",
    "callback": " (did you mean 'on_report'?)",
    "verbose": " (did you mean 'progress'?)",
    "timeout": " (did you mean 'seconds'?)",
    "args": "; with data=…, the function is called fn(x, data)",
    "options": "; give each option by its own name, such as budget=…",
    "constraints": "; there are bounds=… only: add a penalty to the function for others",
    "integers": "; all coordinates are real numbers: round them in the function, with mu=1",
    "starts": "; a run has one start (x0): run from each with a share of the budget, and compare",
    "evaluated": "; values that are known already are not taken: give the best of them as x0",
    "restarts": "; a run that has converged restarts by itself until the budget is spent",
    "jac": "; no gradient is used: with one, SciPy's or torch's own optimizers are better",
}
_ELSEWHERE |= {
    key: f" of a run; it is one of zotune.objective(fn, dim, {key}=…)"
    for key in ("batched", "cheap", "dtype", "device", "optimum", "start")
}
"""Names of settings in other libraries, with hints for error messages."""
_OF_MINIMIZE = (
    *("target", "ftol", "xtol", "seconds", "failures", "checkpoint", "progress", "metrics"),
    *("data", "array", "on_report", "worker", "residuals"),
)
"""Arguments of ``minimize`` besides settings, for hints."""


_ELSEWHERE |= {
    key: f" of a trial; give it to zotune.minimize(…, {key}=…)"
    for key in ("target", "ftol", "xtol", "seconds", "checkpoint", "progress", "on_report")
}
_ELSEWHERE |= {
    key: f" of a trial; it goes with the function: zotune.objective(fn, dim, {key}=…)"
    for key in ("failures", "metrics", "array", "residuals")
}


def describe(problem: Mapping[str, Any]) -> str:
    """One line for a validation error of pydantic."""
    key = ".".join(str(part) for part in problem["loc"])
    came = problem.get("input")
    match problem["type"]:
        case "value_error":
            return str(problem["ctx"]["error"])
        case "missing":
            return f"{key} is missing; give {key}=…"
        case "extra_forbidden":
            fields = [name for name in Config.model_fields if name not in NOT_TYPED]
            hint = _ELSEWHERE.get(key) or nearest(key, (*fields, *_OF_MINIMIZE))
            return f"{key!r} is not a setting{hint or '; settings: ' + ', '.join(fields)}"
        case _:
            if key.startswith("bounds"):
                return f"bounds must be (low, high), numbers or vectors, got {came!r}{PAIRS}"
            message = problem["msg"].replace("Input should be", f"{key} must be")
            for said in ("a valid integer, got a number with a fractional part", "a valid integer"):
                message = message.replace(said, WHOLE)
            return f"{message}, got {came!r}"
