"""The records of a spool as runs in a tracking store: each point once, whatever is sent again.

A run is found by its tags; what it holds already is read back. The time of a point is a function of
its step, so that points whose answer was lost change nothing when they are sent again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zotune.callbacks.artifacts import attach_report
from zotune.callbacks.colours import COLOUR, colour
from zotune.callbacks.curve_points import BATCH, send_points, thinned
from zotune.callbacks.launches import runs_of_launch
from zotune.callbacks.machine_load import end_watch, watch_machine
from zotune.callbacks.page import plain_page, prepare_page
from zotune.callbacks.records import (
    CLOSED,
    ENDED,
    KILLED,
    POINTS,
    RUNNING,
    STARTED,
    SUPERSEDED,
    Point,
    changed_params,
    key_of,
)
from zotune.callbacks.spool import (
    ABOUT,
    DELIVERED,
    Record,
    read_json,
    read_records,
    write_json,
)
from zotune.callbacks.stores import (
    experiment_id,
    open_client,
    without_credentials,
)
from zotune.core.aim import Aim
from zotune.core.grid import GRID_POINTS, budget_grid
from zotune.core.names import (
    ATTEMPT_TAG,
    FINAL,
    GROUP_TAG,
    INTERRUPTED,
    KIND_TAG,
    LAUNCH_GROUP_TAG,
    LAUNCH_TAG,
    LOSSES_KEY,
    NONFINITE_TAG,
    NOW_TAG,
    OF_LAUNCH,
    OF_TRIAL,
    POINT_TAG,
    STATUS_TAG,
    TRIAL_TAG,
)

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
    from mlflow.tracking import MlflowClient

FEW = 100
"""The most params or tags that a call may carry."""
NOTED_EVERY = 1.0
"""Seconds between two notes of how far a long delivery is, for processes that wait for it."""


@dataclass
class TrackedRun:
    """A run in the store, as far as the delivery knows it."""

    id: str
    start: int
    status: str
    high: int = -1
    """The last step that the store has."""
    params: dict[str, str] = field(default_factory=dict)
    ended: int | None = None
    """When it ended, if it has."""
    changed: dict[str, str] = field(default_factory=dict)
    """Params that have another value now."""


@dataclass
class Delivery:
    """How far a spool has been delivered, to one store."""

    folder: Path
    uri: str
    offset: int = 0
    points: int = 0
    """Points that this delivery has sent, not counting those that the store had."""
    problems: dict[str, str] = field(default_factory=dict)
    """Trials that the store refused, and why."""
    seen: int = 0
    """Bytes of records that there were when this was tried last."""
    answered: bool = False
    """Whether the store has ever been open."""
    steps: int = 0
    """Grows whenever the store has taken something."""
    closed: bool = False
    """Whether the writer has said that there is no more to come."""
    page: str = ""
    """Where on a server of the store the launch's curves are shown, once it has ended."""
    page_problem: str = ""
    """Why it may not be the page that was wanted; the curves are there all the same."""

    def __post_init__(self) -> None:
        self.about = read_json(self.folder / ABOUT)
        self._client: MlflowClient | None = None
        self._experiment = ""
        self._runs: dict[str, TrackedRun] = {}
        self._set_aside: set[str] = set()
        self._open: set[str] = set()
        self._noted = time.monotonic()
        self._monitor: SystemMetricsMonitor | None = None

    def connect(self) -> MlflowClient:
        """Open the store and find the runs of the launch; everything is read anew."""
        if self._client is None:
            client = open_client(self.uri)
            self._experiment = experiment_id(client, self.uri, self.about["experiment"])
            known = runs_of_launch(client, self._experiment, self.about["launch_id"])
            of_trials = {run.info.run_id: run.data.tags for run in known}
            gone = {id_ for id_, tags in of_trials.items() if tags.get(KIND_TAG) == SUPERSEDED}
            self._set_aside = {_key(of_trials[id_]) for id_ in gone}
            self._runs = {
                _key(run.data.tags): _tracked(run) for run in known if run.info.run_id not in gone
            }
            self._client, self.answered = client, True
        return self._client

    def watch(self) -> None:
        """Record the load of this machine with the launch, once, where that was asked for."""
        if self._monitor is None and self.about.get("system_metrics"):
            self._monitor = watch_machine(self._summary(self.connect()), self.uri)

    def forget(self) -> None:
        """Drop all that is known of the store after an error; it is read again."""
        self._client = None

    def advance(self) -> bool:
        """Deliver what has been written since; whether there was anything."""
        records, offset = read_records(self.folder, self.offset)
        self.seen = offset
        if not records:
            return False
        client = self.connect()
        by_trial: defaultdict[str, list[Record]] = defaultdict(list)
        for record in records:
            by_trial[_key_in(record)].append(record)
        by_trial.pop("", None)
        for trial, theirs in by_trial.items():
            self._deliver(client, trial, theirs)
            self.steps += 1
            if time.monotonic() - self._noted > NOTED_EVERY:
                self.note()
        self.closed = records[-1]["kind"] == CLOSED
        self.offset = offset
        self.note()
        return True

    def note(self, problem: str = "", *, silent: bool = False) -> None:
        """Write down how far it has come, and what is wrong; ``silent``: nothing answers."""
        content = {"offset": self.offset, "points": self.points, "problem": problem or self.refused}
        content |= {"page": self.page, "page_problem": self.page_problem}
        content |= {"seen": self.seen, "absent": silent and not self.answered, "steps": self.steps}
        write_json(self.folder / DELIVERED, content)
        self._noted = time.monotonic()

    @property
    def refused(self) -> str:
        """What the store has refused, and why, in one line."""
        return "; ".join(f"{trial}: {why}" for trial, why in self.problems.items())

    def finish(self) -> None:
        """End the runs of trials that have not ended, and write the summary."""
        from zotune.callbacks.summary_run import write_summary

        client = self.connect()
        if self._monitor is not None:
            end_watch(self._monitor)
            self._monitor = None
        records = read_records(self.folder)[0]
        last = {_key_in(record): record["points"][-1] for record in records if "points" in record}
        for trial in sorted(self._open):
            run = self._runs[trial]
            self._send(client, run, [last[trial]] if trial in last else [])
            client.set_tag(run.id, STATUS_TAG, INTERRUPTED)
            client.set_terminated(run.id, KILLED, end_time=run.start + max(run.high, 0))
            run.status = KILLED
        launch = self.folder.parent.parent
        write_summary(client, self._summary(client), self.about, records, launch)
        if records and (report := records[-1].get("report")):
            attach_report(client, self._summary(client), launch / report)
        self._prepare_page(client)

    def _prepare_page(self, client: MlflowClient) -> None:
        """Prepare the launch's page; or take MLflow's own, and note why."""
        place = [self._experiment], [self.about["launch_id"]]
        try:
            page = prepare_page(client, *place)
        except Exception as error:
            page = plain_page(client, *place, error)
        self.page, self.page_problem = page.path, page.problem

    def _deliver(self, client: MlflowClient, trial: str, records: list[Record]) -> None:
        try:
            if trial in self._set_aside:
                return
            if records[-1]["kind"] == SUPERSEDED:
                if "spent" in records[-1] and records[:-1]:  # another attempt follows; this stays
                    self._deliver_to_run(client, trial, records[:-1])
                self._supersede(client, trial)
            else:
                self._deliver_to_run(client, trial, records)
        except Exception as error:
            if not _is_refusal(error):
                raise
            self.problems[trial] = without_credentials(str(error))[:300]

    def _supersede(self, client: MlflowClient, trial: str) -> None:
        """Mark the run of a trial, if it has one, as no trial of the launch any more."""
        self._open.discard(trial)
        self._set_aside.add(trial)
        run = self._runs.pop(trial, None)
        if run is not None:
            client.set_tag(run.id, STATUS_TAG, SUPERSEDED)
            client.set_terminated(run.id, KILLED, end_time=run.start + max(run.high, 0))
            client.set_tag(run.id, KIND_TAG, SUPERSEDED)  # the last, as the run is not found by it

    def _deliver_to_run(self, client: MlflowClient, trial: str, records: list[Record]) -> None:
        run = self._run(client, trial, records)
        points = [(int(s), v) for r in records if r["kind"] == POINTS for s, v in r["points"]]
        if any(LOSSES_KEY in record for record in records):
            points = self._thinned(run, points)
        self._send(client, run, points)
        self._say_nonfinite(client, run, records)
        if records[-1]["kind"] == ENDED:
            self._end(client, run, records[-1])
            self._open.discard(trial)
        else:
            self._set_status(client, run, RUNNING)
            self._open.add(trial)

    def _send(self, client: MlflowClient, run: TrackedRun, points: Sequence[Point]) -> None:
        """Send the points that the run does not have yet."""
        fresh = [(int(step), values) for step, values in points if step > run.high]
        for sent in send_points(client, run.id, fresh, run.start):
            run.high = sent[-1][0]
            self.points += len(sent)
            self.steps += 1

    def _thinned(self, run: TrackedRun, points: list[Point]) -> list[Point]:
        """The points of a curve of zotune's that the store is to keep."""
        budget, own = (run.params.get(key, "") for key in ("budget", "points"))
        most = self.about.get("points", GRID_POINTS)
        if not (budget.isdecimal() and own.isdecimal() and most < int(own)):
            return points
        fine, coarse = (budget_grid(int(budget), count) for count in (int(own), most))
        return thinned(points, fine, coarse)

    def _run(self, client: MlflowClient, trial: str, records: list[Record]) -> TrackedRun:
        """The run of a trial, made if there is none, with its params."""
        first = records[0]
        if trial not in self._runs:
            if first["kind"] != STARTED:
                everything = read_records(self.folder)[0]
                which = [records[0].get(key) for key in ("trial", "attempt")]
                first = next(r for r in everything if [r.get("trial"), r.get("attempt")] == which)
            self._runs[trial] = self._create(client, first)
        run = self._runs[trial]
        for record in records:
            if record["kind"] == STARTED:
                self._params(client, run, record["params"])
        return run

    def _create(self, client: MlflowClient, started: Record) -> TrackedRun:
        tags = self._tags_of(OF_TRIAL) | {TRIAL_TAG: started["trial"]}
        if (attempt := started.get("attempt", 1)) > 1:
            tags[ATTEMPT_TAG] = str(attempt)
        if (shade := colour(started["params"])) is not None:
            tags[COLOUR] = shade
        if group := started.get("group"):
            of_launch = f"{self.about['launch_id'][-4:]} {group}"  # pages cut off what is long
            tags |= {GROUP_TAG: group, LAUNCH_GROUP_TAG: of_launch}
        if self.about.get("nested"):
            tags["mlflow.parentRunId"] = self._summary(client)
        made = client.create_run(
            self._experiment, start_time=started["time"], tags=tags, run_name=started["name"]
        )
        return _tracked(made)

    def _summary(self, client: MlflowClient) -> str:
        """The id of the launch's own run."""
        if "" not in self._runs:
            tags = self._tags_of(OF_LAUNCH)
            if self.about.get("parent"):
                tags["mlflow.parentRunId"] = self.about["parent"]
            name = f"summary {self.about['launch_id']}"
            start = self.about["time"]
            made = client.create_run(self._experiment, start_time=start, tags=tags, run_name=name)
            self._runs[""] = _tracked(made)
        return self._runs[""].id

    def _tags_of(self, kind: str) -> dict[str, str]:
        own = {LAUNCH_TAG: self.about["launch_id"], KIND_TAG: kind}
        return {**self.about.get("tags", {}), **Aim.of(self.about).tags, **own}

    def _params(self, client: MlflowClient, run: TrackedRun, params: dict[str, str]) -> None:
        """Params that the run lacks; one that has changed since (as in PBT) becomes a tag."""
        from mlflow.entities import Param

        new = [Param(key, value) for key, value in params.items() if key not in run.params]
        for at in range(0, len(new), FEW):
            client.log_batch(run.id, params=new[at : at + FEW])
        for key, value in params.items():
            if run.changed.get(key, run.params.setdefault(key, value)) != value:
                client.set_tag(run.id, f"{NOW_TAG}{key}"[:250], value)
                run.changed[key] = value

    def _say_nonfinite(self, client: MlflowClient, run: TrackedRun, records: list[Record]) -> None:
        lost = {
            key: step for r in reversed(records) for key, step in r.get("nonfinite", {}).items()
        }
        if lost:
            said = ", ".join(f"{key} from {step}" for key, step in sorted(lost.items()))
            client.set_tag(run.id, NONFINITE_TAG, said[:5000])

    def _end(self, client: MlflowClient, run: TrackedRun, ended: Record) -> None:
        """Last values, what became of the trial, its point, and at the very end its status."""
        from mlflow.entities import Metric, RunTag

        from zotune.callbacks.artifacts import upload_point

        if run.ended == ended["time"] and run.status == ended["status"]:
            return  # the last thing that is delivered is there, and so is the rest
        time_ = run.start + ended["step"]
        last = [Metric(FINAL + k, v, time_, ended["step"]) for k, v in ended["final"].items()]
        tags = [RunTag(key, value) for key, value in ended["tags"].items()]
        client.log_batch(run.id, metrics=last[:BATCH], tags=tags[:FEW])
        problem = upload_point(client, run.id, ended.get("checkpoint"))
        if problem:
            client.set_tag(run.id, POINT_TAG, problem)
        client.set_terminated(run.id, ended["status"], end_time=ended["time"])
        run.status, run.ended = ended["status"], ended["time"]

    def _set_status(self, client: MlflowClient, run: TrackedRun, status: str) -> None:
        if run.status != status:
            client.update_run(run.id, status=status)
            run.status = status


def _key_in(record: Record) -> str:
    """The attempt of a trial that a record is about; empty for others."""
    return key_of(record.get("trial", ""), record.get("attempt", 1))


def _key(tags: Mapping[str, str]) -> str:
    """The attempt of a trial that a run belongs to; empty for the summary."""
    return key_of(tags.get(TRIAL_TAG, ""), int(tags.get(ATTEMPT_TAG, "1")))


def _tracked(run: Run) -> TrackedRun:
    steps = [m.step for m in run.data._metric_objs if not m.key.startswith(FINAL)]
    return TrackedRun(
        run.info.run_id,
        run.info.start_time,
        run.info.status,
        max(steps, default=-1),
        dict(run.data.params),
        run.info.end_time,
        changed_params(run.data.tags),
    )


def _is_refusal(error: Exception) -> bool:
    """Whether the store has refused the request itself, so that a retry would not help."""
    code = getattr(error, "error_code", None)
    return code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
