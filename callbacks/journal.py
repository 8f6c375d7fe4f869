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
    ITERATION,
    KILLED,
    POINTS,
    SPENT,
    STARTED,
    SUPERSEDED,
    group_of,
    is_ours,
    last_line,
    name_of,
    no_numbers_of,
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
from zotune.core.aim import Aim
from zotune.core.names import (
    AGAIN,
    COMPLETE,
    DIVERGED,
    ERROR_TAG,
    ESTIMATED_TAG,
    FINAL_LOSSES_TAG,
    GAMMA_KEY,
    INTERRUPTED,
    LOG10_ETA,
    LOSSES_KEY,
    LOST_KEY,
    LOST_TAG,
    MINIMUM_KEY,
    MINIMUM_TAG,
    REPEATED,
    STATUS_TAG,
    STOPPED_EARLY,
)
from zotune.core.ranking import LOSS
from zotune.core.spending import repeated

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

TAG_LENGTH = 5000
"""Of more, some stores keep a part only."""


class Journal:
    """Turns what Tune says of trials into records; points that are known already stay out."""

    def __init__(
        self,
        records: Iterable[Record] = (),
        axes: Iterable[str] = (),
        aim: Aim = LOSS,
        constants: Iterable[str] = (),
    ) -> None:
        self._axes, self._constants = list(axes), set(constants)
        self._aim = aim
        self._attempts: dict[str, int] = {}
        self._before: dict[str, int] = {}
        self._values: dict[str, float] = {}
        self._not_taken: set[str] = set()
        self._high: dict[str, int] = {}
        self._open: set[str] = set()
        self._losses: dict[str, list[float]] = {}
        self._minima: dict[str, float] = {}
        self._lost: dict[str, list[bool]] = {}
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
            self._attempts[trial] = record.get("attempt", 1) + 1
            self._before[trial] = self._before.get(trial, 0) + record.get("spent", 0)
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
        if (value := self._value_in(record)) is not None:
            self._values[trial] = value
        if LOSSES_KEY in record:
            self._losses[trial] = record[LOSSES_KEY]
        if any(record.get(LOST_KEY, ())):
            self._lost[trial] = record[LOST_KEY]
        if record.get(MINIMUM_KEY) is not None:
            self._minima[trial] = record[MINIMUM_KEY]
        self._reports.setdefault(trial, []).extend(record.get("reports", ()))
        if record["kind"] == POINTS and record["points"]:
            self._high[trial] = max(self._high[trial], record["points"][-1][0])

    def _forget(self, trial: str) -> None:
        ends = (self._losses, self._minima, self._lost)
        for known in (self._high, *ends, self._params, self._reports):
            known.pop(trial, None)
        self._values.pop(trial, None)
        self._unwritten.pop(trial, None)
        self._ends.pop(trial, None)
        for some in (self._open, self._ended):
            some.discard(trial)

    def leave_out(self, living: Iterable[str]) -> list[Record]:
        """Supersede what Tune, which has these trials, has forgotten.

        A trial that had ended is whole, and is left out only when a twin of it begins.
        """
        gone = self._high.keys() - set(living)
        self._forgotten = sorted(gone & self._ended)
        return [self._supersede(trial) for trial in sorted(gone - self._ended)]

    def _value_in(self, record: Record) -> float | None:
        """The last value of the metric that decides in a record; NaN if it was not finite."""
        metric, lost = self._aim.metric, record.get("nonfinite", {})
        points = record["points"] if record["kind"] == POINTS else ()
        for step, values in reversed(points):
            if metric in values:
                return float(values[metric])
            if step >= lost.get(metric, math.inf):
                return math.nan
        return None

    def _supersede(self, trial: str) -> Record:
        record: Record = {"kind": SUPERSEDED, "trial": trial, "time": _now(), **self._which(trial)}
        self._replay(record)
        return record

    def knows(self, trial_id: str) -> bool:
        """Whether the trial has been written down."""
        return trial_id in self._high

    def not_taken(self, trial: Trial, row: Mapping[str, Any]) -> dict[str, str]:
        """Values of a row of others that cannot be recorded, with their kinds; each named once."""
        if is_ours(trial):
            return {}
        new = {k: v for k, v in no_numbers_of(row).items() if k not in self._not_taken}
        self._not_taken |= new.keys()
        return new

    @property
    def lacks(self) -> str:
        """The metric that decides, if there are trials and none has reported it."""
        return self._aim.metric if self._high and not self._values else ""

    def is_open(self, trial: Trial) -> bool:
        """Whether the trial has begun, and not ended."""
        return trial.trial_id in self._open

    def start(self, trial: Trial) -> list[Record]:
        """The trial's name and configuration, whenever a worker takes it up."""
        settings = settings_of(trial)
        attempt = self._attempts.get(trial.trial_id, 1)
        searched = self._searched(trial, settings)
        name = name_of(trial, settings, searched)
        named = name if attempt == 1 else f"{name} (attempt {attempt})"
        record = self._record(trial, STARTED, name=named)
        record["params"] = params_of(settings)
        if group := group_of(settings, searched):
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
        begun = self._new_attempt(trial, row)
        begun += [] if trial.trial_id in self._open else self.start(trial)
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
        record = self._record(trial, POINTS, points=points)
        if nonfinite:
            record["nonfinite"] = nonfinite
        if reports := self._unwritten.pop(trial.trial_id, None):
            record["reports"] = reports
        if curve and LOSSES_KEY in curve[-1]:
            told = (LOSSES_KEY, LOST_KEY, MINIMUM_KEY, GAMMA_KEY)
            record |= {key: curve[-1][key] for key in told}
        self._replay(record)
        return [*begun, record]

    def _new_attempt(self, trial: Trial, row: Mapping[str, Any]) -> list[Record]:
        """Set aside what a trial of others has reported before it began again from nothing.

        Its values need not be the same as before; those of zotune's trainables are.
        """
        before = self._high.get(trial.trial_id, -1)
        if row.get(ITERATION) != 1 or before < 0 or is_ours(trial):
            return []
        record = self._record(trial, SUPERSEDED, spent=before)
        self._replay(record)
        return [record]

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
        ours, numbers = is_ours(trial), numbers_of(row)
        word = row.get("status") if ours else None
        value = numbers.get(self._aim.metric, self._values.get(trial.trial_id))
        if not ours and value is not None and not math.isfinite(value):
            word = DIVERGED
        if status == KILLED and (row.get("status") in COMPLETE or row.get("done")):
            status = FINISHED
        finite, _ = split_finite(numbers)
        if not ours and value is not None and math.isfinite(value):
            finite[self._aim.metric] = value  # also if the last row does not have it
        reports = self._reports.get(trial.trial_id, []) + self._unwritten.pop(trial.trial_id, [])
        again = repeated(reports) + self._before.get(trial.trial_id, 0) + int(row.get(AGAIN, 0))
        if again and REPEATED not in finite:
            finite[REPEATED] = float(again)
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
            if trial.trial_id in self._lost:
                record["tags"][LOST_TAG] = json.dumps(self._lost[trial.trial_id])
        if trial.trial_id in self._minima:
            record["tags"][MINIMUM_TAG] = repr(self._minima[trial.trial_id])
        checkpoint = trial.checkpoint
        record["checkpoint"] = None if checkpoint is None else str(checkpoint.path)
        self._replay(record)
        return [*begun, record]

    def _log_eta(self, trial: Trial) -> dict[str, float]:
        """The logarithm of a step that was searched, for charts whose axes are linear."""
        eta = number(trial.config.get("eta"))
        if eta is None or eta <= 0 or "eta" not in self._searched(trial, trial.config):
            return {}
        return {LOG10_ETA: math.log10(eta)}

    def _searched(self, trial: Trial, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The searched settings with the trial's values."""
        found = searched_by(trial, settings, self._axes)
        return {k: v for k, v in found.items() if k in self._axes or k not in self._constants}

    def close(self, report: str = "") -> Record:
        """Nothing more comes; a folder beside the spools may hold the launch's report."""
        told = {"report": report} if report else {}
        return {"kind": CLOSED, "time": _now(), **told}

    def _record(self, trial: Trial, kind: str, **content: Any) -> Record:
        record = {"kind": kind, "trial": trial.trial_id, **content}
        record |= {} if kind == POINTS else {"time": _now()}
        return record | self._which(trial.trial_id)

    def _which(self, trial: str) -> dict[str, int]:
        """The number of a trial's attempt, from the second on."""
        return {"attempt": self._attempts[trial]} if trial in self._attempts else {}


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
