"""What came out of a launch: the best of each estimator and q, what failed, what to type next.

Losses of two problems are not compared: where options of the problem are searched, everything is
told of each instance apart.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from zotune.core.account import as_record, spending_of
from zotune.core.names import EXHAUSTED, RUNNING
from zotune.results.dedupe import without_copies
from zotune.results.remarks import remarks
from zotune.study.points import PROBLEM, label, place, setting, short
from zotune.study.running import Outcome
from zotune.study.verdicts import verdicts_of

if TYPE_CHECKING:
    from ray import tune
    from rich.table import Table

    from zotune.reporting.series import Series

FIGURE = "curves.png"
MOST_DRAWN = 6
"""Instances of the problem in the figure; the table and the report have all."""
EARLY, SO_FAR = "stopped early", "so far"


@dataclass(frozen=True)
class Entry:
    """One configuration: a trial, or several that are replicates of one, without copies."""

    estimator: str
    q: int
    searched: dict[str, Any]
    """The other keys that the study searched."""
    loss: float
    loss_std: float
    gap: float | None
    spent: int
    steps: int
    status: str
    trials: tuple[str, ...]
    replicates: int
    """Independent runs behind the loss; of one alone nothing is known of its spread."""
    accuracy: float | None = None
    """Of a model on its validation data, where it names classes."""
    start_loss: float | None = None
    """The loss before the first step."""
    smoothness: float | None = None
    """The L that the theory's step was divided by; None for other steps."""
    smoothness_estimated: bool = False
    """Whether L was estimated, so that the step is not the theory's."""

    @property
    def instance(self) -> dict[str, Any]:
        """The options of the problem among the searched keys: which function was minimised."""
        return {key: value for key, value in self.searched.items() if key.startswith(PROBLEM)}

    @property
    def remarks(self) -> list[str]:
        """What is to be said wherever it may be called the best."""
        estimated = self.smoothness if self.smoothness_estimated else None
        return remarks(self.loss, self.start_loss, estimated)


@dataclass(frozen=True)
class Failure:
    """A trial that failed, and the last line of its traceback."""

    trial: str
    point: dict[str, Any]
    error: str

    def __str__(self) -> str:
        return f"{self.trial} ({label(self.point)}): {self.error}"


def entries(outcome: Outcome) -> list[Entry]:
    """Every configuration that has a loss, the lowest first."""
    searched = _searched_keys(outcome)
    unfinished = SO_FAR if outcome.interrupted else EARLY
    groups: defaultdict[str, list[tune.Result]] = defaultdict(list)
    for result in _each(outcome.results):
        if result.error is None and result.metrics and "loss" in result.metrics:
            groups[str([setting(result.config, key) for key in searched])].append(result)
    kept = (without_copies(group, same=_whole, spent=_spent) for group in groups.values())
    found = (_entry(group, searched, unfinished) for group in kept)
    return sorted(found, key=lambda entry: entry.loss)


def _each(results: tune.ResultGrid) -> list[tune.Result]:
    return [results[at] for at in range(len(results))]


def _whole(result: tune.Result) -> str:
    """The whole configuration, seed and replicates too."""
    return json.dumps(result.config, sort_keys=True, default=str)


def _spent(result: tune.Result) -> float:
    return float((result.metrics or {})["spent"])


def _entry(group: list[tune.Result], searched: list[str], unfinished: str) -> Entry:
    rows: list[dict[str, Any]] = [result.metrics or {} for result in group]
    config, losses = group[0].config or {}, [row["loss"] for row in rows]
    gaps = [row["gap"] for row in rows if row["gap"] is not None]
    accuracies = [row["accuracy"] for row in rows if row.get("accuracy") is not None]
    return Entry(
        estimator=config["estimator"],
        q=config["q"],
        searched={k: setting(config, k) for k in searched if k not in ("estimator", "q")},
        loss=fmean(losses),
        loss_std=stdev(losses) if len(losses) > 1 else rows[0]["loss_std"],
        gap=fmean(gaps) if gaps else None,
        spent=max(row["spent"] for row in rows),
        steps=max(row["steps"] for row in rows),
        status=_status(rows, unfinished),
        trials=tuple(row["trial_id"] for row in rows),
        replicates=len(rows) * config.get("replicates", 1),
        accuracy=fmean(accuracies) if accuracies else None,
        start_loss=_mean_of(rows, "start_loss"),
        smoothness=_mean_of(rows, "L"),
        smoothness_estimated=any(row.get("L_estimated") for row in rows),
    )


def _mean_of(rows: list[dict[str, Any]], key: str) -> float | None:
    known = [row[key] for row in rows if row.get(key) is not None]
    return fmean(known) if known else None


def _status(rows: list[dict[str, Any]], unfinished: str) -> str:
    """One word; Tune calls all trials terminated, but a row that says running is to be believed."""
    words = [unfinished if row["status"] == RUNNING else row["status"] for row in rows]
    return str(words[0]) if len(set(words)) == 1 else "mixed"


def best_entries(all_entries: list[Entry]) -> list[Entry]:
    """The best of each estimator and q on each instance of the problem, in this order."""
    best: dict[tuple[Any, ...], Entry] = {}
    for entry in all_entries:
        best.setdefault((_instance_order(entry), entry.estimator, entry.q), entry)
    return [best[key] for key in sorted(best)]


def _instance_order(entry: Entry) -> tuple[tuple[bool, float, str], ...]:
    """Numbers by size, before anything else by its text; equal for one instance only."""
    return tuple(
        (False, value, "") if isinstance(value, int | float) else (True, 0.0, repr(value))
        for value in entry.instance.values()
    )


def _differing(best: list[Entry]) -> list[str]:
    """The options of the problem in which the entries differ."""
    keys = best[0].instance if best else {}
    return [key for key in keys if len({repr(entry.searched[key]) for entry in best}) > 1]


def failures(outcome: Outcome) -> list[Failure]:
    """Trials that failed."""
    found = []
    for result in _each(outcome.results):
        if result.error is not None:
            trial = Path(result.path).name.rsplit("_", 2)[0]
            point = _point(outcome, trial, result)
            found.append(Failure(trial, point, _last_line(result.error)))
    return found


def _point(outcome: Outcome, trial: str, result: tune.Result) -> dict[str, Any]:
    """Where a trial stood, by its number: one that failed at once may have its actor's last row."""
    study, at = outcome.launch.study, trial.rpartition("_")[2]
    known = at.isdigit() and int(at) < len(study.trials)
    config = place(study.config, study.trials[int(at)]) if known else result.config or {}
    keys = [*_searched_keys(outcome), *(["replicate"] if config.get("replicate") else [])]
    return {key: setting(config, key) for key in keys if config}


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def best_table(best: list[Entry], title: str) -> Table:
    """The best of each estimator and q; the best of all of an estimator is marked.

    Where the problem differs, its options come first, and the mark is of each instance.
    """
    from rich.table import Table

    apart = _differing(best)
    more = [key for key in best[0].searched if key not in apart] if best else []
    gaps = all(entry.gap is not None for entry in best)
    shown = Table(title=title, title_justify="left")
    for option in apart:
        shown.add_column(option, justify="right")
    shown.add_column("estimator")
    spreads = any(entry.replicates > 1 for entry in best)
    accuracies = any(entry.accuracy is not None for entry in best)
    known = ["± std"] * spreads + ["accuracy"] * accuracies
    for column in ("q", *more, "gap f − f*" if gaps else "loss", *known, "steps"):
        shown.add_column(column, justify="right")
    shown.add_column("")
    for entry in best:
        whose = (entry.instance, entry.estimator)
        same = [other for other in best if (other.instance, other.estimator) == whose]
        marks = ["best"] if entry is min(same, key=lambda e: e.loss) else []
        marks += [*entry.remarks, *([entry.status] if entry.status != EXHAUSTED else [])]
        value = entry.gap if gaps and entry.gap is not None else entry.loss
        spread = f"{entry.loss_std:.2g}" if entry.replicates > 1 else ""
        accuracy = "" if entry.accuracy is None else f"{entry.accuracy:.3g}"
        told = [spread] * spreads + [accuracy] * accuracies
        numbers = (f"{value:.5g}", *told, str(entry.steps))
        first, middle = ([short(entry.searched[key]) for key in keys] for keys in (apart, more))
        which = (*first, entry.estimator, str(entry.q), *middle)
        shown.add_row(*which, *numbers, ", ".join(marks))
    return shown


def _searched_keys(outcome: Outcome) -> list[str]:
    """Keys of the space, estimator and q among them or not."""
    return list(dict.fromkeys(["estimator", "q", *outcome.launch.study.space]))


def draw(outcome: Outcome, best: list[Entry]) -> Path | None:
    """The curves of the best configurations in the launch's folder; None without any.

    Instances of the problem have panels of their own, which name them.
    """
    from zotune.reporting.figures import curves
    from zotune.reporting.series import from_run
    from zotune.runs.run import load_run

    instances = list(dict.fromkeys(_instance_order(entry) for entry in best))
    drawn = [entry for entry in best if _instance_order(entry) in instances[:MOST_DRAWN]]
    found = {
        str(result.metrics["trial_id"]): result
        for result in _each(outcome.results)
        if result.metrics and "trial_id" in result.metrics and result.checkpoint
    }
    apart = _differing(best)
    series = [
        _titled(from_run(load_run(found[entry.trials[0]])), entry, apart)
        for entry in drawn
        if entry.trials[0] in found
    ]
    if not series:
        return None
    drawing = curves(series)
    if len(instances) > MOST_DRAWN:
        drawing.figure.suptitle(f"the first {MOST_DRAWN} of {len(instances)} problems")
    return drawing.save_as(outcome.launch.folder / FIGURE)


def _titled(series: Series, entry: Entry, apart: list[str]) -> Series:
    """The series with its instance in the name of its panel."""
    said = [f"{key.removeprefix(PROBLEM)} = {short(entry.searched[key])}" for key in apart]
    panel = ", ".join([entry.estimator, *said])
    return replace(series, config={**series.config, "estimator": panel})


def as_dict(outcome: Outcome, figure: Path | None) -> dict[str, Any]:
    """The outcome for a machine."""
    launch, study = outcome.launch, outcome.launch.study
    found = entries(outcome)
    verdicts, not_judged = verdicts_of(study, outcome.results)
    return {
        "study": study.name,
        "question": study.question,
        "launch": launch.id,
        "folder": str(launch.folder),
        "figure": None if figure is None else str(figure),
        "state": launch.state,
        "seconds": round(outcome.seconds, 3),
        "trials": len(outcome.results),
        "best": [asdict(entry) for entry in best_entries(found)],
        "verdicts": [asdict(verdict) for verdict in verdicts],
        "not_judged": not_judged,
        "failed": [asdict(failure) for failure in failures(outcome)],
        "spending": as_record(spending_of(launch.folder)),
        "skipped": [{"point": s.point, "reason": s.reason} for s in study.skipped],
    }
