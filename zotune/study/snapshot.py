"""Snapshots of a running study: the progress of its trials, and the best of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from zotune.core.names import COMPLETE, DIVERGED, FAILED, RUNNING, STOPPED_EARLY, STUDY_FILE
from zotune.core.ranking import rank, remarks
from zotune.core.settings import PROBLEM, label, merged, setting
from zotune.study.studyfile import parse_document

WAITING, DONE, WITHOUT = "waiting", "done", "without a result"
STATES = {"RUNNING": RUNNING, "PENDING": WAITING, "PAUSED": WAITING, "TERMINATED": DONE}
OVER = ("TERMINATED", "ERROR")
"""Tune's statuses of trials that have ended."""
SHOWN = (RUNNING, WAITING, DONE, STOPPED_EARLY, WITHOUT, FAILED)


@dataclass(frozen=True)
class Snapshot:
    """A study at one moment."""

    total: int
    states: Mapping[str, int]
    spent: int
    budget: int
    bests: tuple[tuple[float, str], ...]
    """For each instance of the problem, the lowest final value (gap if known, else loss) of trials
    that have ended, and the trial's label; as in the final table."""
    lowest: tuple[tuple[float, str], ...]
    """For each instance, the lowest loss of any trial so far, and the trial's label."""
    measure: str = "loss"
    """The measure of final values: gap or loss."""
    ended: Mapping[str, str] = field(default_factory=dict)
    """A line for each trial that has ended, by its id."""

    @property
    def share(self) -> float:
        """The spent share of all budgets; trials that ended early count as fully spent."""
        return self.spent / self.budget if self.budget else 0.0


def snapshot(trials: Iterable[Any], total: int) -> Snapshot:
    """A snapshot of Tune's trials."""
    return Watch().look(trials, total)


class Watch:
    """Takes snapshots repeatedly; each trial that has ended is processed only once.

    The cost therefore depends on the number of running trials only.
    """

    def __init__(self) -> None:
        self._seen = _Sums()
        self._over = set[str]()

    def look(self, trials: Iterable[Any], total: int) -> Snapshot:
        """A snapshot of the study now."""
        seen, living = 0, list[Any]()
        for trial in trials:
            seen += 1
            if trial.status not in OVER:
                living.append(trial)
            elif trial.trial_id not in self._over:
                self._over.add(trial.trial_id)
                self._seen.add(trial)
        now = self._seen.copied()
        for trial in living:
            now.add(trial)
        return now.snapshot(seen, total)


@dataclass
class _Sums:
    """Sums over trials."""

    states: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SHOWN, 0))
    spent: int = 0
    budget: int = 0
    bests: dict[str, Ranked] = field(default_factory=dict)
    lowest: dict[str, Ranked] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    measure: str = "loss"

    def copied(self) -> _Sums:
        """A copy, to which running trials are added."""
        return replace(
            self,
            states=dict(self.states),
            bests=dict(self.bests),
            lowest=dict(self.lowest),
            ended=dict(self.ended),
        )

    def add(self, trial: Any) -> None:
        """Add a trial."""
        last, limit = trial.last_result or {}, trial.config.get("budget", 0)
        state = _state(trial.status, last.get("status"))
        self.states[state] += 1
        over = trial.status in OVER
        self.spent += limit if over else last.get("spent", 0)
        self.budget += limit
        if over or last.get("loss") is not None:
            self._add_losses(trial, last, state if over else "")

    def _add_losses(self, trial: Any, last: Mapping[str, Any], end: str) -> None:
        """Add a trial's losses, and the line of one that has ended."""
        loss, searched = last.get("loss"), _searched_by(trial)
        named = trial_label(trial.config, searched)
        which = repr([setting(trial.config, key) for key in searched if key.startswith(PROBLEM)])
        if loss is not None:
            _keep_best(self.lowest, which, last.get("best_loss", loss), named)
            self.measure = "loss" if last.get("gap") is None else "gap"
        if end not in ("", FAILED) and loss is not None:
            told = ", ".join([named, *_remarks(last)])
            _keep_best(self.bests, which, last[self.measure], told, str(last.get("status")))
        if end:
            word = DIVERGED if last.get("status") == DIVERGED else end
            self.ended[trial.trial_id] = f"{named}: {word}{_end(trial, self.measure)}"

    def snapshot(self, seen: int, total: int) -> Snapshot:
        """A snapshot from these sums, over ``seen`` of ``total`` trials."""
        waiting = max(0, total - seen)
        states = self.states | {WAITING: self.states[WAITING] + waiting}
        return Snapshot(
            max(total, seen),
            states,
            self.spent,
            self.budget + waiting * (self.budget // max(1, seen)),
            tuple((value, named) for _, value, named in self.bests.values()),
            tuple((value, named) for _, value, named in self.lowest.values()),
            self.measure,
            self.ended,
        )


def _state(tune_says: str, status: str | None) -> str:
    """What is told of a trial, by Tune's word for it and the status of its last row."""
    if tune_says == "TERMINATED" and status not in COMPLETE:
        return STOPPED_EARLY if status else WITHOUT
    return STATES.get(tune_says, FAILED)


Ranked = tuple[tuple[bool, float, float], float, str]
"""Sort key, value, and label of a result."""


def _keep_best(
    kept: dict[str, Ranked], which: str, value: float, named: str, status: str = ""
) -> None:
    """Store a value and its label, unless a better one is stored."""
    place = rank(status, value)
    if which not in kept or place < kept[which][0]:
        kept[which] = (place, value, named)


def _end(trial: Any, measure: str) -> str:
    """The line for a trial that has ended; empty if it has no loss."""
    last = trial.last_result or {}
    if last.get("loss") is None:
        return ""
    spread = f" ± {last['loss_std']:.2g}" if trial.config.get("replicates", 1) > 1 else ""
    return ", ".join([f", {measure} {last[measure]:.6g}{spread}", *_remarks(last)])


def _remarks(last: Mapping[str, Any]) -> list[str]:
    estimated = last.get("L") if last.get("L_estimated") else None
    return remarks(last["loss"], last.get("start_loss"), estimated)


def _searched_by(trial: Any) -> tuple[str, ...]:
    """The settings that the trial's study searches; empty if it has none."""
    place = getattr(trial, "path", None)
    return _searched_in(Path(place).parent / STUDY_FILE) if place else ()


@cache
def _searched_in(file: Path) -> tuple[str, ...]:
    """Keys with several values in the study file of a launch's folder."""
    if not file.is_file():
        return ()
    space = parse_document(file.read_text(encoding="utf-8"), str(file)).data.get("space")
    return tuple(
        k for k, axis in merged(space).items() if not isinstance(axis, list) or len(axis) > 1
    )


def trial_label(config: Mapping[str, Any], searched: Iterable[str] = ()) -> str:
    """A readable label of a trial, with the searched settings."""
    keys = dict.fromkeys(("estimator", "q", "eta", *searched, "replicate"))
    point = {key: setting(config, key) for key in keys}
    return label({key: value for key, value in point.items() if value is not None})
