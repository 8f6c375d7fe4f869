"""What has been written down of each trial, so that nothing is written twice."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotune.callbacks.records import (
    CLOSED,
    ENDED,
    FAILED,
    FINISHED,
    KILLED,
    POINTS,
    SPENT,
    STARTED,
    SUPERSEDED,
    group_of,
    last_line,
    name_of,
    number,
    numbers_of,
    params_of,
    searched_by,
    settings_of,
    split_finite,
    step_of,
)
from zotune.callbacks.spool import Record
from zotune.core import names
from zotune.core.names import (
    COMPLETE,
    DIVERGED,
    ERROR_TAG,
    ESTIMATED_TAG,
    FINAL_LOSSES_TAG,
    GAMMA_KEY,
    INTERRUPTED,
    LOG10_ETA,
    LOSSES_KEY,
    MINIMUM_KEY,
    MINIMUM_TAG,
    STATUS_TAG,
    STOPPED_EARLY,
)
from zotune.core.spending import repeated

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

TAG_LENGTH = 5000
"""Of more, some stores keep a part only."""


class Journal:
    """Turns what Tune says of trials into records; points that are known already stay out."""

    def __init__(self, records: Iterable[Record] = (), axes: Iterable[str] = ()) -> None:
        self._axes = list(axes)
        self._high: dict[str, int] = {}
        self._open: set[str] = set()
        self._diverged: set[str] = set()
        self._losses: dict[str, list[float]] = {}
        self._minima: dict[str, float] = {}
        self._params: dict[str, dict[str, str]] = {}
        self._reports: dict[str, list[int]] = {}
        self._unwritten: dict[str, list[int]] = {}
        self._ended: set[str] = set()
        self._ends: dict[str, Record] = {}
        self._forgotten: list[str] = []
        for record in records:
            self._replay(record)

    def _replay(self, record: Record) -> None:
        trial = record.get("trial")
        if trial is None:
            return
        if record["kind"] == SUPERSEDED:
            self._forget(trial)
            return
        self._high.setdefault(trial, -1)
        if record["kind"] == ENDED:
            self._open.discard(trial)
            self._ends[trial] = record
        else:
            self._open.add(trial)
        if record["kind"] == ENDED and record["status"] != KILLED:
            self._ended.add(trial)
        if record["kind"] == STARTED:
            self._params[trial] = record["params"]
        if "nonfinite" in record:
            self._diverged.add(trial)
        if LOSSES_KEY in record:
            self._losses[trial] = record[LOSSES_KEY]
        if record.get(MINIMUM_KEY) is not None:
            self._minima[trial] = record[MINIMUM_KEY]
        self._reports.setdefault(trial, []).extend(record.get("reports", ()))
        if record["kind"] == POINTS and record["points"]:
            self._high[trial] = max(self._high[trial], record["points"][-1][0])

    def _forget(self, trial: str) -> None:
        for known in (self._high, self._losses, self._minima, self._params, self._reports):
            known.pop(trial, None)
        self._unwritten.pop(trial, None)
        self._ends.pop(trial, None)
        for some in (self._open, self._ended, self._diverged):
            some.discard(trial)

    def leave_out(self, living: Iterable[str]) -> list[Record]:
        """Supersede what Tune, which has these trials, has forgotten.

        A trial that had ended is whole, and is left out only when a twin of it begins.
        """
        gone = self._high.keys() - set(living)
        self._forgotten = sorted(gone & self._ended)
        return [self._supersede(trial) for trial in sorted(gone - self._ended)]

    def _supersede(self, trial: str) -> Record:
        record: Record = {"kind": SUPERSEDED, "trial": trial, "time": _now()}
        self._replay(record)
        return record

    def knows(self, trial_id: str) -> bool:
        """Whether the trial has been written down."""
        return trial_id in self._high

    def is_open(self, trial: Trial) -> bool:
        """Whether the trial has begun, and not ended."""
        return trial.trial_id in self._open

    def start(self, trial: Trial) -> list[Record]:
        """The trial's name and configuration, whenever a worker takes it up."""
        settings = settings_of(trial)
        record = self._record(trial, STARTED, name=name_of(trial, settings, self._axes))
        record["params"] = params_of(settings)
        if group := group_of(trial, settings, self._axes):
            record["group"] = group
        twins = [] if self.knows(trial.trial_id) else self._twins(record["params"])
        self._replay(record)
        return [record, *(self._supersede(twin) for twin in twins)]

    def _twins(self, params: Mapping[str, str]) -> list[str]:
        """A forgotten trial of that configuration, if there is one; it is found once."""
        found = [trial for trial in self._forgotten if self._params.get(trial) == params][:1]
        self._forgotten = [trial for trial in self._forgotten if trial not in found]
        return found

    def result(
        self, trial: Trial, row: Mapping[str, Any], curve: list[dict[str, Any]] | None
    ) -> list[Record]:
        """The points that a result brings: its curve's, or itself where it has no curve."""
        begun = [] if trial.trial_id in self._open else self.start(trial)
        if row.get(SPENT) is not None:
            self._unwritten.setdefault(trial.trial_id, []).append(step_of(row))
        points: list[list[Any]] = []
        nonfinite: dict[str, int] = {}
        high = self._high[trial.trial_id]
        for point in [row] if curve is None else curve:
            step = step_of(point)
            if step > high:
                high = step
                finite, lost = split_finite(numbers_of(point))
                points.append([step, finite])
                nonfinite |= {key: step for key in lost if key not in nonfinite}
        if not points:
            return begun
        record: Record = {"kind": POINTS, "trial": trial.trial_id, "points": points}
        if nonfinite:
            record["nonfinite"] = nonfinite
        if reports := self._unwritten.pop(trial.trial_id, None):
            record["reports"] = reports
        if curve and LOSSES_KEY in curve[-1]:
            record |= {key: curve[-1][key] for key in (LOSSES_KEY, MINIMUM_KEY, GAMMA_KEY)}
        self._replay(record)
        return [*begun, record]

    def last_points(self, trial: Trial) -> list[Record]:
        """The points of a trial's last row, if a killed driver had not written them down."""
        row = trial.last_result or {}
        curve = row.pop(names.CURVE_KEY, None)
        return [] if curve is None else self.result(trial, row, curve)

    def end(self, trial: Trial, status: str) -> list[Record]:
        """The trial's last values and what became of it.

        A trial that ended before a kill and is run again to the same step keeps the values of its
        first end: its seconds differ, and the store would keep both. So does one of which Tune has
        lost all rows, and that it ends without running it again.
        """
        begun = [] if self.knows(trial.trial_id) else self.start(trial)
        row, before = trial.last_result or {}, self._ends.get(trial.trial_id)
        if before is not None and not numbers_of(row):
            record = {**before, "time": _now()}
            self._replay(record)
            return [*begun, record]
        word = row.get("status")
        if word is None and trial.trial_id in self._diverged:
            word = DIVERGED
        if status == KILLED and (row.get("status") in COMPLETE or row.get("done")):
            status = FINISHED
        finite, _ = split_finite(numbers_of(row))
        reports = self._reports.get(trial.trial_id, []) + self._unwritten.pop(trial.trial_id, [])
        if (again := repeated(reports)) and names.REPEATED not in finite:
            finite[names.REPEATED] = float(again)
        if before is not None and before["step"] == step_of(row):
            finite |= before["final"]
        finite |= self._log_eta(trial)
        record = self._record(trial, ENDED, status=status, step=step_of(row), final=finite)
        record["tags"] = {STATUS_TAG: _word(status, word)}
        if row.get("L_estimated"):
            record["tags"][ESTIMATED_TAG] = "true"
        if status == FAILED:
            record["tags"][ERROR_TAG] = _error(trial)
        losses = json.dumps(self._losses.get(trial.trial_id))
        if trial.trial_id in self._losses and len(losses) <= TAG_LENGTH:
            record["tags"][FINAL_LOSSES_TAG] = losses
        if trial.trial_id in self._minima:
            record["tags"][MINIMUM_TAG] = repr(self._minima[trial.trial_id])
        checkpoint = trial.checkpoint
        record["checkpoint"] = None if checkpoint is None else str(checkpoint.path)
        self._replay(record)
        return [*begun, record]

    def _log_eta(self, trial: Trial) -> dict[str, float]:
        """The logarithm of a step that was searched, for charts whose axes are linear."""
        eta = number(trial.config.get("eta"))
        if eta is None or eta <= 0 or "eta" not in searched_by(trial, trial.config, self._axes):
            return {}
        return {LOG10_ETA: math.log10(eta)}

    def close(self, report: str = "") -> Record:
        """Nothing more comes; a folder beside the spools may hold the launch's report."""
        told = {"report": report} if report else {}
        return {"kind": CLOSED, "time": _now(), **told}

    def _record(self, trial: Trial, kind: str, **content: Any) -> Record:
        return {"kind": kind, "trial": trial.trial_id, "time": _now(), **content}


def _now() -> int:
    return time.time_ns() // 10**6


def _word(status: str, word: Any) -> str:
    """One word for a person: what the row says, unless something else ended the run."""
    if status == FAILED:
        return names.FAILED
    if status == KILLED:
        return INTERRUPTED
    if word in COMPLETE:
        return str(word)
    return names.FINISHED if word is None else STOPPED_EARLY


def _error(trial: Trial) -> str:
    if trial.storage is None or trial.error_file is None:
        return "unknown"
    return last_line(Path(trial.error_file).read_text(encoding="utf-8"))
