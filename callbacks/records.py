"""Convert Tune's trials and results to records for a tracking store: names, params, points."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

from zotune.callbacks.stores import without_credentials
from zotune.core.names import GAMMA_KEY, MINIMUM_KEY, NOW_TAG, TOTALS
from zotune.core.settings import flat, label

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

STARTED, POINTS, ENDED, CLOSED = "started", "points", "ended", "closed"
SUPERSEDED = "superseded"
"""Status of a trial that Tune has lost and replaced by another."""
FINISHED, FAILED, KILLED, RUNNING = "FINISHED", "FAILED", "KILLED", "RUNNING"
"""Statuses of a run as MLflow writes them."""

MACHINERY = {"curve", "block_bytes"}
"""Technical settings, which do not affect results."""
VALUE_LENGTH, KEY_LENGTH = 6000, 250
STEP, ITERATION, SPENT = "timesteps_total", "training_iteration", "spent"
NOT_OF_THE_STUDY = {
    "checkpoint_dir_name",
    "config",
    "date",
    "done",
    "episodes_total",
    "experiment_tag",
    "hostname",
    "iterations_since_restore",
    "L_estimated",
    GAMMA_KEY,
    MINIMUM_KEY,
    "node_ip",
    "pid",
    "should_checkpoint",
    "start_loss",
    "time_since_restore",
    "time_this_iter_s",
    "time_total_s",
    "timestamp",
    "timesteps_since_restore",
    "timesteps_this_iter",
    "trial_id",
    "trial_log_path",
    STEP,
    ITERATION,
    SPENT,
    *TOTALS,
}
Point = tuple[int, dict[str, float]]


def key_of(trial: str, attempt: int = 1) -> str:
    """What tells a trial's attempts apart: its id, and the number of the attempt from 2 on."""
    return trial if attempt == 1 else f"{trial} {attempt}"


def of_last_attempts(records: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The records that count: without trials and attempts that others have replaced."""
    kept = list(records)
    gone = {
        key_of(record["trial"], record.get("attempt", 1))
        for record in kept
        if record["kind"] == SUPERSEDED
    }
    return [r for r in kept if key_of(r.get("trial", ""), r.get("attempt", 1)) not in gone]


def clean_key(key: str) -> str:
    """A key with characters that every store accepts."""
    return re.sub(r"[^-\w. /:]", "_", key)[:KEY_LENGTH]


def number(value: Any) -> float | None:
    """The value as a float: numbers, booleans as 0 and 1, arrays and tensors of no dimension."""
    if isinstance(value, str | bytes):
        return None
    if not isinstance(value, Real) and getattr(value, "shape", None) == ():
        value = value.item()
    return float(value) if isinstance(value, Real) else None


def _of_study(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values of a row that are results, without process ids and times."""
    for key, value in flat(row, "/"):
        if key.split("/")[0] not in NOT_OF_THE_STUDY:
            yield clean_key(key), value


def numbers_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row that are results, finite or not, without process ids and times."""
    numbers = ((key, number(value)) for key, value in _of_study(row))
    return {key: value for key, value in numbers if value is not None}


def no_numbers_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The results of a row that a store of metrics cannot take, each with its kind.

    >>> no_numbers_of({"loss": 1.0, "note": "fine", "info": {"sizes": [1, 2]}, "gap": None})
    {'note': 'str', 'info/sizes': 'list'}
    """
    return {
        key: _kind(value)
        for key, value in _of_study(row)
        if value is not None and not isinstance(value, Mapping) and number(value) is None
    }


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"array of shape {tuple(shape)}"


def step_of(row: Mapping[str, Any]) -> int:
    """The step of a row: the spent budget, else Tune's count of steps or of reports."""
    for key in (SPENT, STEP, ITERATION):
        value = number(row.get(key))
        if value is not None and math.isfinite(value):
            return int(value)
    return 0


def split_finite(values: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """The values that a chart can show, and the names of the others."""
    finite = {key: value for key, value in values.items() if math.isfinite(value)}
    return finite, sorted(values.keys() - finite.keys())


def is_ours(trial: Trial) -> bool:
    """Whether the trainable of a trial is one of zotune's."""
    cls: Any = trial.get_trainable_cls()  # type: ignore[no-untyped-call]
    return cls is not None and any(base.__name__ == "ZOTrainable" for base in cls.__mro__)


def settings_of(trial: Trial) -> dict[str, Any]:
    """The configuration of a trial; for zotune's trainables, with defaults filled in.

    It includes the keys that go to the user's function.
    """
    cls: Any = trial.get_trainable_cls()  # type: ignore[no-untyped-call]
    given = {**getattr(cls, "defaults", {}), **trial.config}
    if not is_ours(trial):
        return given
    from zotune.config import parse_config, parted
    from zotune.errors import ConfigError
    from zotune.objectives import PROBLEMS, complete_problem

    known, own = parted(given)
    try:
        full = parse_config(known).model_dump()
    except (ConfigError, TypeError):
        return given
    if full["problem"].get("name") in PROBLEMS:  # not a function of the user's
        full["problem"] = complete_problem(full["problem"])
    return {key: value for key, value in full.items() if key not in MACHINERY} | own


def params_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """A configuration as params for a store, without credentials."""
    return {
        clean_key(key): without_credentials(str(value))[:VALUE_LENGTH]
        for key, value in flat(settings)
    }


def changed_params(tags: Mapping[str, str]) -> dict[str, str]:
    """Params of a run that have another value now, as tags say it."""
    return {k.removeprefix(NOW_TAG): v for k, v in tags.items() if k.startswith(NOW_TAG)}


def name_of(trial: Trial, settings: Mapping[str, Any], searched: Mapping[str, Any]) -> str:
    """The readable name of a trial, by what tells it from others: ``align q=100``, ``l2=0.1``.

    Estimator and q are named also if they are not searched, unless other settings are: pages cut
    off what is long. So is the name without the parents of a nested setting, if it is unique.
    """
    alone = searched.keys() <= {"method", "estimator", "q", "replicate"}
    named = {**_known(settings), **searched} if alone else _in_order(searched)
    return without_credentials(label(_shortened(named)) or str(trial))[:KEY_LENGTH]


def group_of(settings: Mapping[str, Any], searched: Mapping[str, Any]) -> str:
    """The group of a trial on a page: ``avg q=10``, with the update if it was searched.

    Trials that are replicates of one configuration form a group, which is shown by its mean; its
    name has all searched settings except the replicate. Empty for other trainables.
    """
    known = _known(settings)
    if not known:
        return ""
    if "replicate" in searched:
        more = {key: value for key, value in searched.items() if key != "replicate"}
    else:
        more = {key: searched[key] for key in ("update",) if key in searched}
    return without_credentials(label(_shortened({**known, **more})))[:KEY_LENGTH]


def _in_order(searched: Mapping[str, Any]) -> dict[str, Any]:
    """Method, estimator and q first."""
    first = ("method", "estimator", "q")
    return dict(sorted(searched.items(), key=lambda item: item[0] not in first))


def _shortened(named: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings by their last names, where these are unique."""
    last = Counter(key.rpartition(".")[2] for key in named)
    short = {key: key.rpartition(".")[2] for key in named}
    return {short[k] if last[short[k]] == 1 else k: value for k, value in named.items()}


def searched_by(
    trial: Trial, settings: Mapping[str, Any], axes: Iterable[str] = ()
) -> dict[str, Any]:
    """The searched settings with the trial's values; rules of q count as q."""
    drawn = {key.replace("/", "."): value for key, value in flat(trial.evaluated_params, "/")}
    values = dict(flat(settings)) | dict(settings)
    found = drawn | {key: values[key] for key in axes if key in values}
    return {key: value for key, value in found.items() if not key.startswith("q.")}


def _known(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: settings[key] for key in ("method", "estimator", "q") if key in settings}


def last_line(error: str) -> str:
    """The line of a traceback with the exception."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return without_credentials(lines[-1])[:500] if lines else "unknown"
