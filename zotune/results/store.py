"""Read launches of a study and their trials from MLflow."""

from __future__ import annotations

import ast
import json
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from zotune.callbacks.artifacts import attach_report
from zotune.callbacks.launches import launch_starts, runs_of_launch
from zotune.callbacks.records import changed_params
from zotune.callbacks.stores import is_absent, open_client, resolve_uri, without_credentials
from zotune.core.aim import Aim
from zotune.core.names import (
    ACCOUNT_TAG,
    ERROR_TAG,
    ESTIMATED_TAG,
    FINAL,
    FINAL_LOSSES_TAG,
    FINISHED,
    INTERRUPTED,
    KIND_TAG,
    LOG10_ETA,
    LOST_TAG,
    MINIMUM_TAG,
    OF_LAUNCH,
    OF_TRIAL,
    RUNNING,
    STATUS_TAG,
    STUDY_FILE,
    TRIAL_TAG,
)
from zotune.core.spending import Spending
from zotune.errors import ConfigError, unknown
from zotune.objectives import PROBLEMS
from zotune.results.trial import Course, History, Trial, curve_of, with_end

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Experiment, Run
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from mlflow.tracking import MlflowClient

    from zotune.study import Study

ALL = "all"
"""Given instead of a launch id: all launches."""
AT_ONCE = 8
"""Number of parallel requests to a server, by threads that mostly wait."""
RUNS = 100
"""Maximum number of runs in one database query."""


@dataclass(frozen=True)
class LaunchRecord:
    """One launch of a study: its trials, and the study as it was run."""

    study: str
    launch: str
    started: datetime
    trials: tuple[Trial, ...]
    file: dict[str, Any] = field(default_factory=dict)
    """The study file; empty while the launch runs, or if there was none."""
    summary: str | None = None
    """The id of the launch's summary run, which exists when the launch has ended."""
    account: Spending | None = None
    """What the launch has spent by its account; None while it runs, or if it has none."""

    @cached_property
    def spending(self) -> Spending:
        """Total spending: by the account, else by the rows of the trials."""
        return self.account or Spending.of((trial.config, trial.row) for trial in self.trials)

    @property
    def is_running(self) -> bool:
        """Whether any trial is running."""
        return any(trial.status == RUNNING for trial in self.trials)

    @cached_property
    def planned(self) -> int | None:
        """The number of trials of the study; None if the records do not determine it.

        For a model it may depend on its files, which may not be on this machine.
        """
        return None if self._study is None else self._study.size or None

    @cached_property
    def left_out(self) -> list[str]:
        """Trials that were not begun, because the study's total was spent."""
        from zotune.study.totals import left_out

        if self._study is None or self.is_running:
            return []
        return left_out(self._study, (trial.config for trial in self.trials))

    @cached_property
    def _study(self) -> Study | None:
        """The study of the file; None if there is none, or if it is not valid here."""
        from zotune.study import Study
        from zotune.study.shape import Shape

        problem = self.file.get("problem")
        name = problem.get("name") if isinstance(problem, dict) else problem
        if name in PROBLEMS and PROBLEMS[str(name)].weights:
            return None
        try:
            study = Study.of(Shape(**self.file))
            return study if study.size >= 0 else None
        except ValueError:  # no study file, or one with entries that are not registered here
            return None

    @property
    def ended(self) -> int:
        """The number of trials that have ended in any way; not those whose driver died."""
        return sum(trial.status not in (RUNNING, INTERRUPTED) for trial in self.trials)

    @property
    def is_unfinished(self) -> bool:
        """Whether trials are waiting or interrupted, and none is running."""
        waits = self.ended < max(len(self.trials), self.planned or 0)
        return waits and not self.is_running


@dataclass(frozen=True)
class Store:
    """An open tracking store."""

    uri: str
    client: MlflowClient

    @classmethod
    def open(cls, uri: str | None = None) -> Store:
        """Open an existing store; never creates one."""
        resolved = resolve_uri(uri)
        if is_absent(resolved):
            raise ConfigError(
                f"there is no tracking store at {without_credentials(resolved)}; "
                "give --tracking-uri, or set MLFLOW_TRACKING_URI"
            )
        return cls(resolved, open_client(resolved))

    def launches(self, study: str) -> list[str]:
        """Ids of a study's launches, the newest first."""
        return list(self._starts(study))

    def read(self, study: str, launches: Sequence[str] = ()) -> list[LaunchRecord]:
        """The given launches of a study, or ``["all"]``; oldest first. Default: the newest."""
        every = self._starts(study) if ALL in launches or not launches else {}
        wanted = list(every) if ALL in launches else list(launches) or list(every)[:1]
        experiment = self._experiment(study).experiment_id
        runs = {launch: runs_of_launch(self.client, experiment, launch) for launch in wanted}
        for launch in wanted:
            if not runs[launch]:
                raise unknown(f"launch of {study}", launch, [*self._starts(study), ALL])
        chosen = sorted(runs, key=lambda launch: _start(runs[launch]))
        return [self._launch(study, launch, runs[launch]) for launch in chosen]

    def attach(self, record: LaunchRecord, folder: Path) -> str:
        """Upload a folder to the launch's summary run; returns an error message, if any."""
        if record.summary is None:
            return "the launch has no summary run yet"
        return attach_report(self.client, record.summary, folder)

    def _experiment(self, study: str) -> Experiment:
        found = self.client.get_experiment_by_name(study)
        if found is None or found.lifecycle_stage != "active":
            known = [e.name for e in self.client.search_experiments() if e.name != "Default"]
            raise unknown("study", study, known)
        return found

    def _starts(self, study: str) -> dict[str, int]:
        """The start time of each launch of a study, newest first; raises an error if none."""
        found = launch_starts(self.client, self._experiment(study).experiment_id)
        if not found:
            raise ConfigError(
                f"study {study!r} has no launch in {without_credentials(self.uri)}; "
                "its runs must have been logged by zotune.callbacks.MLflowCurves"
            )
        return found

    def _launch(self, study: str, launch: str, runs: list[Run]) -> LaunchRecord:
        summary = next((r for r in runs if r.data.tags.get(KIND_TAG) == OF_LAUNCH), None)
        trials = [run for run in runs if run.data.tags.get(KIND_TAG) == OF_TRIAL]
        records = [
            _trial(run, history)
            for run, history in zip(trials, histories(self.client, trials), strict=True)
        ]
        return LaunchRecord(
            study=study,
            launch=launch,
            started=datetime.fromtimestamp(_start(runs) / 1000, UTC),
            trials=tuple(sorted(records, key=lambda r: (r.name, r.id))),
            file={} if summary is None else self._study_file(summary.info.run_id),
            summary=None if summary is None else summary.info.run_id,
            account=None if summary is None else Spending.told(summary.data.tags.get(ACCOUNT_TAG)),
        )

    def _study_file(self, run_id: str) -> dict[str, Any]:
        """The study as it was run; empty where no study file was recorded."""
        from mlflow.exceptions import MlflowException

        with tempfile.TemporaryDirectory() as folder:
            try:
                path = self.client.download_artifacts(run_id, STUDY_FILE, folder)
            except (MlflowException, OSError):
                return {}
            loaded = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return loaded if isinstance(loaded, dict) else {}


def histories(client: MlflowClient, runs: Sequence[Run]) -> list[History]:
    """The curves of many runs: by one query if the store is a database, else key by key."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = client._tracking_client.store
    if isinstance(store, SqlAlchemyStore):
        return _from_database(store, [run.info.run_id for run in runs])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(partial(_from_server, client), runs))


def _from_server(client: MlflowClient, run: Run) -> History:
    return {
        key: {m.step: m.value for m in client.get_metric_history(run.info.run_id, key)}
        for key in run.data.metrics
        if not key.startswith(FINAL)
    }


def _from_database(store: SqlAlchemyStore, ids: Sequence[str]) -> list[History]:
    """Read plain rows; MLflow's API makes two objects for each, and takes 40 times as long."""
    found: dict[str, History] = {run_id: {} for run_id in ids}
    for at in range(0, len(ids), RUNS):
        twice = _read_rows(store, ids[at : at + RUNS], found, in_order=False)
        if twice:
            _read_rows(store, sorted(twice), found, in_order=True)
    return list(found.values())


def _read_rows(
    store: SqlAlchemyStore, ids: Sequence[str], found: dict[str, History], *, in_order: bool
) -> set[str]:
    """Read the curves of runs; return those that have several values at one step.

    For these, the value logged last counts, which needs a sorted query. Sorting doubles the time,
    and runs logged by zotune have one value per step.
    """
    from mlflow.store.tracking.dbmodels.models import SqlMetric
    from sqlalchemy import select

    metric: Any = SqlMetric.__table__.c
    wanted = select(metric.run_uuid, metric.key, metric.step, metric.value, metric.is_nan)
    wanted = wanted.where(metric.run_uuid.in_(ids), ~metric.key.startswith(FINAL))
    if in_order:
        wanted = wanted.order_by(metric.timestamp, metric.step, metric.value)
    twice: set[str] = set()
    with store.ManagedSessionMaker() as session:
        cursor = session.connection().execute(wanted).cursor  # faster than SQLAlchemy's rows
        for run_id, key, step, value, is_nan in cursor.fetchall():
            curve = found[run_id].setdefault(key, {})
            if step in curve:
                twice.add(run_id)
            curve[step] = nan if is_nan else value
    return twice


def _trial(run: Run, history: History) -> Trial:
    tags = run.data.tags
    aim = Aim.of_tags(tags)
    curve = curve_of(history, aim)
    status = RUNNING if run.info.status == "RUNNING" else tags.get(STATUS_TAG, FINISHED)
    row = _row(run, curve)
    whole = with_end(curve, row, status)
    return Trial(
        id=tags.get(TRIAL_TAG, ""),
        name=str(run.info.run_name),
        status=status,
        config=nested(run.data.params | changed_params(tags)),
        row=row,
        load=lambda: Course(
            whole,
            _losses(tags.get(FINAL_LOSSES_TAG)),
            _minimum(tags, whole),
            diverged=tuple(json.loads(tags.get(LOST_TAG, "[]"))),
        ),
        error=tags.get(ERROR_TAG, ""),
        run_id=run.info.run_id,
        aim=aim,
    )


def _row(run: Run, curve: pd.DataFrame) -> dict[str, Any]:
    """The final values of a run: those at its end, else of its last point."""
    ends = [metric for metric in run.data._metric_objs if metric.key.startswith(FINAL)]
    row: dict[str, Any] = {metric.key.removeprefix(FINAL): metric.value for metric in ends}
    row.pop(LOG10_ETA, None)  # the configuration has eta
    if ends:
        row["spent"] = max(metric.step for metric in ends)
    elif len(curve):
        row = {str(key): value for key, value in curve.iloc[-1].dropna().items()}
    return row | ({"L_estimated": True} if ESTIMATED_TAG in run.data.tags else {})


def _minimum(tags: Mapping[str, str], curve: pd.DataFrame) -> float | None:
    """The recorded minimum; for older runs loss − gap at the smallest loss, to limit rounding."""
    if MINIMUM_TAG in tags:
        return float(tags[MINIMUM_TAG])
    if "gap" not in curve or "loss" not in curve:
        return None
    loss, gap = (curve[column].to_numpy(float) for column in ("loss", "gap"))
    at = abs(loss).argmin()
    return float(loss[at] - gap[at])


def _start(runs: Sequence[Run]) -> int:
    return min(int(run.info.start_time) for run in runs)


def _losses(tag: str | None) -> tuple[float, ...] | None:
    return None if tag is None else tuple(float(loss) for loss in json.loads(tag))


def nested(params: Mapping[str, str]) -> dict[str, Any]:
    """The configuration from the params of a run.

    >>> nested({"q": "10", "eta": "None", "problem.name": "quadratic", "problem.dim": "50"})
    {'q': 10, 'eta': None, 'problem': {'name': 'quadratic', 'dim': 50}}
    """
    config: dict[str, Any] = {}
    for key, text in params.items():
        inner = config
        *parents, last = key.split(".")
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = _value(text)
    return config


def _value(text: str) -> Any:
    """A number, None, a boolean or a list if the text is one; else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
