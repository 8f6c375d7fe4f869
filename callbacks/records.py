"""Convert Tune's trials and results to records for a tracking store: names, params, points."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
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


def clean_key(key: str) -> str:
    """A key with characters that every store accepts."""
    return re.sub(r"[^-\w. /:]", "_", key)[:KEY_LENGTH]


def number(value: Any) -> float | None:
    """The value as a float; None if it is not a number (booleans are not)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    return float(value)


def numbers_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row that are results, finite or not, without process ids and times."""
    of_study = (
        (clean_key(key), number(value))
        for key, value in flat(row, "/")
        if key.split("/")[0] not in NOT_OF_THE_STUDY
    )
    return {key: value for key, value in of_study if value is not None}


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


def settings_of(trial: Trial) -> dict[str, Any]:
    """The configuration of a trial; for zotune's trainables, with defaults filled in."""
    cls: Any = trial.get_trainable_cls()  # type: ignore[no-untyped-call]
    given = {**getattr(cls, "defaults", {}), **trial.config}
    if cls is None or not any(base.__name__ == "ZOTrainable" for base in cls.__mro__):
        return given
    from zotune.config import parse_config
    from zotune.errors import ConfigError

    try:
        full = parse_config(given).model_dump()
    except (ConfigError, TypeError):
        return given
    return {key: value for key, value in full.items() if key not in MACHINERY}


def params_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """A configuration as params for a store, without credentials."""
    return {
        clean_key(key): without_credentials(str(value))[:VALUE_LENGTH]
        for key, value in flat(settings)
    }


def changed_params(tags: Mapping[str, str]) -> dict[str, str]:
    """Params of a run that have another value now, as tags say it."""
    return {k.removeprefix(NOW_TAG): v for k, v in tags.items() if k.startswith(NOW_TAG)}


def name_of(trial: Trial, settings: Mapping[str, Any], axes: Iterable[str] = ()) -> str:
    """The readable name of a trial: ``align q=100``, and other searched settings.

    Settings drawn by Tune are known; ``axes`` are further keys in which the trials differ.
    """
    named = {**_known(settings), **searched_by(trial, settings, axes)}
    return without_credentials(label(named) or str(trial))[:KEY_LENGTH]


def group_of(trial: Trial, settings: Mapping[str, Any], axes: Iterable[str] = ()) -> str:
    """The group of a trial on a page: ``avg q=10``, with the update if it was searched.

    Trials that are replicates of one configuration form a group, which is shown by its mean; its
    name has all searched settings except the replicate. Empty for other trainables.
    """
    known, searched = _known(settings), searched_by(trial, settings, axes)
    if not known:
        return ""
    if "replicate" in searched:
        more = {key: value for key, value in searched.items() if key != "replicate"}
    else:
        more = {key: searched[key] for key in ("update",) if key in searched}
    return without_credentials(label({**known, **more}))[:KEY_LENGTH]


def searched_by(
    trial: Trial, settings: Mapping[str, Any], axes: Iterable[str] = ()
) -> dict[str, Any]:
    """The searched settings with the trial's values; rules of q count as q."""
    drawn = {key.replace("/", "."): value for key, value in flat(trial.evaluated_params, "/")}
    values = dict(flat(settings)) | dict(settings)
    found = drawn | {key: values[key] for key in axes if key in values}
    return {key: value for key, value in found.items() if not key.startswith("q.")}


def _known(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: settings[key] for key in ("estimator", "q") if key in settings}


def last_line(error: str) -> str:
    """The line of a traceback with the exception."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return without_credentials(lines[-1])[:500] if lines else "unknown"
