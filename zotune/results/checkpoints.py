"""Trials read from checkpoints: of runs in this process, of a folder, of Tune's results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from zotune._lazy import LazyModule
from zotune.callbacks.records import MACHINERY, last_line, numbers_of
from zotune.callbacks.spool import ABOUT, FOLDER, find_spools, read_json
from zotune.config import Config, parse_config
from zotune.core.account import spent_in
from zotune.core.names import (
    AGAIN,
    FAILED,
    INTERRUPTED,
    REPEATED,
    RUNNING,
    STOPPED_EARLY,
    STUDY_FILE,
)
from zotune.core.settings import label, place, setting
from zotune.core.spending import Spending, repeated
from zotune.errors import CheckpointError, ConfigError
from zotune.results.spools import Spooled, spooled_in
from zotune.results.store import LaunchRecord
from zotune.results.trial import Course, Trial, curve_of, with_end
from zotune.runs.lookup import last_checkpoints

if TYPE_CHECKING:
    from ray import tune

    from zotune.core import curve as curves
    from zotune.runs import run as runs
    from zotune.runs.run import Run
    from zotune.study.running import Outcome
else:  # imported late: a launch is summarised from its rows; only curves need torch
    curves = LazyModule("zotune.core.curve")
    runs = LazyModule("zotune.runs.run")

REPORTS = "result.json"
"""File in a trial's folder with its rows, one per line."""


def from_run(run: Run, name: str = "") -> Trial:
    """The trial of a run."""
    row = {**run.rows[-1], "spent": run.spent, "start_loss": run.rows[0]["loss"]}
    if run.smoothness is not None:
        row |= {"L": float(run.smoothness.mean()), "L_estimated": run.smoothness_estimated}
    known = _values(row)
    load = partial(_course, run, known)
    return Trial(name, name, run.status, _settings(run.config), known, load)


def from_checkpoint(path: Path) -> Trial:
    """The trial of a checkpoint's file."""
    return from_run(runs.run_at(path), str(path))


def from_outcome(outcome: Outcome) -> list[Trial]:
    """The trials of a launch from Tune's results, without those that have no result."""
    keys = list(dict.fromkeys(["estimator", "q", *outcome.launch.study.searched]))
    spooled = cache(partial(spooled_in, outcome.launch.folder))
    results = [outcome.results[at] for at in range(len(outcome.results))]
    told = [one for one in results if _has_result(one, interrupted=outcome.interrupted)]
    return [_from_result(result, outcome, keys, spooled) for result in told]


def _has_result(result: tune.Result, *, interrupted: bool) -> bool:
    """Whether a trial has failed or reported; of one that was not begun Tune knows its id alone."""
    lost = not result.metrics and not interrupted  # its rows went with a killed driver
    return bool(result.error or lost or (result.metrics or {}).get("status"))


def launch_of(outcome: Outcome, trials: Sequence[Trial]) -> LaunchRecord:
    """The record of a launch as it will be in the store, made from the trials of this process."""
    launch = outcome.launch
    return LaunchRecord(
        study=launch.study.name,
        launch=launch.id,
        started=_start(launch.folder) or datetime.fromisoformat(launch.notes["started"]),
        trials=tuple(sorted(trials, key=lambda trial: (trial.name, trial.id))),
        file=yaml.safe_load((launch.folder / STUDY_FILE).read_text(encoding="utf-8")),
        account=spent_in(launch.folder).or_of(spent_by(trials)),
    )


def spent_by(trials: Sequence[Trial]) -> Spending:
    """The spending of trials by their rows alone."""
    return Spending.of((trial.config, trial.row) for trial in trials)


def _start(folder: Path) -> datetime | None:
    """The start time of a launch as recorded in its store; None without a store."""
    told = [read_json(spool / ABOUT)["time"] for spool in find_spools(folder / FOLDER)]
    return datetime.fromtimestamp(min(told) / 1000, UTC) if told else None


def _from_result(
    result: tune.Result,
    outcome: Outcome,
    keys: list[str],
    spooled: Callable[[], Mapping[str, Spooled]],
) -> Trial:
    folder = Path(result.path).name
    if not result.metrics and not result.error and (kept := _kept(Path(result.path))):
        status = STOPPED_EARLY if kept.status == RUNNING else kept.status
        name = label({key: setting(kept.config, key) for key in keys})
        return replace(kept, id=folder.rsplit("_", 2)[0], name=name, status=status)
    metrics, study = dict(result.metrics or {}), outcome.launch.study
    config, failed = _complete(result.config or {}), result.error is not None
    if failed:  # one that failed at once may have rows and settings of its actor's previous trial
        number = folder.rsplit("_", 2)[0].rpartition("_")[2]
        known = number.isdigit() and int(number) < len(study.trials)
        config = place(study.config, study.trials[int(number)]) if known else config
        metrics = metrics if str(metrics.get("trial_id")) in folder else {}
    status = str(metrics.get("status", FAILED))
    if status == RUNNING:
        status = INTERRUPTED if outcome.interrupted else STOPPED_EARLY
    row = _values(metrics) | {REPEATED: _repeated(metrics, Path(result.path))}
    shown = [*keys, *(["replicate"] if config.get("replicate") else [])]
    trial_id = str(metrics.get("trial_id") or folder.rsplit("_", 2)[0])

    def load() -> Course:
        known = spooled().get(trial_id)
        if known is None or not known.is_whole:
            return _course_of_result(result, row)
        curve = with_end(curve_of(known.history), row, status)
        return Course(curve, known.losses, known.minimum, known.gamma, known.diverged)

    return Trial(
        id=trial_id,
        name=label({key: setting(config, key) for key in shown}),
        status=FAILED if failed else status,
        config=config,
        row=row,
        load=load,
        error=last_line(str(result.error)) if failed else "",
    )


def _kept(folder: Path) -> Trial | None:
    """The trial in the last checkpoint, if its rows were lost with a killed driver."""
    try:
        return from_checkpoint(last_checkpoints(folder)[0])
    except CheckpointError:
        return None


def _complete(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with defaults filled in, if it is one of zotune."""
    try:
        return _settings(parse_config(dict(config)))
    except (ConfigError, TypeError):
        return dict(config)


def _settings(config: Config) -> dict[str, Any]:
    return {key: value for key, value in config.model_dump().items() if key not in MACHINERY}


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row that are results."""
    known = {key: row[key] for key in ("spent", "start_loss") if row.get(key) is not None}
    return known | numbers_of(row) | ({"L_estimated": True} if row.get("L_estimated") else {})


def _repeated(row: Mapping[str, Any], folder: Path) -> int:
    """What a trial has repeated, also by workers; rows are read only if it was restored."""
    if REPEATED in row:
        return int(row[REPEATED])
    return int(row.get(AGAIN, 0)) + _reported_again(row, folder)


def _reported_again(row: Mapping[str, Any], folder: Path) -> int:
    """The budget of reports that have come twice, after crashes."""
    if row.get("iterations_since_restore") == row.get("training_iteration"):
        return 0
    try:
        lines = (folder / REPORTS).read_text(encoding="utf-8").splitlines()
        return repeated(int(json.loads(line)["spent"]) for line in lines)
    except (OSError, ValueError, KeyError):  # no rows are kept, or one is truncated
        return 0


def _course_of_result(result: tune.Result, row: Mapping[str, Any]) -> Course:
    import pandas as pd

    if result.checkpoint is None:
        return Course(pd.DataFrame({"spent": [], "loss": [], "loss_std": []}))
    return _course(runs.load_run(result), row)


def _course(run: Run, row: Mapping[str, Any]) -> Course:
    points = run.curve.astype({"gap": float}).select_dtypes("number").dropna(axis=1, how="all")
    last = curves.together([lane.curve[-1] for lane in run.state.lanes])
    losses = tuple(last.tensors["loss"].tolist())
    lost = tuple(last.tensors["diverged"].bool().tolist())
    return Course(with_end(points, row, run.status), losses, run.minimum, diverged=lost)
