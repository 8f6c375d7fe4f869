"""The tables of a report: the best configurations, who leads, how far trials are; and as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from zotune.reporting.drawing import LABELS, number, with_spread
from zotune.reporting.footnotes import Footnotes
from zotune.reporting.page import Table
from zotune.results.configurations import (
    PANELS,
    Configuration,
    best,
    measure_of,
    panels_of,
    searched,
)
from zotune.results.leaders import leaders
from zotune.results.store import LaunchRecord
from zotune.results.trial import Trial

if TYPE_CHECKING:
    import pandas as pd

ENDS = ("loss", "loss_std", "gap", "best_loss", "evaluations")
COUNTERS = ("queries", "monitored", "repeated", "steps", "diverged")
"""Columns of table.csv, at the end of each series; of other trainables COUNTERS are not known."""


@dataclass(frozen=True)
class Part:
    """A launch on one problem."""

    launch: LaunchRecord
    problem: str
    """What of the problem differs within the launch; empty where nothing does."""
    series: list[Configuration]
    slug: str
    """Before the names of its figures, where there is more than one part."""

    @cached_property
    def searched(self) -> list[str]:
        """Settings in which its series differ."""
        return searched(self.series)


def leader_tables(some: Sequence[Configuration]) -> list[Table]:
    """Who is ahead at which budget, where configurations can be compared."""
    found = list(leaders(some))
    if not found:
        return []
    measure, many = LABELS[measure_of(some)], found[0].instances
    rows = [
        [
            str(one.spent),
            one.name,
            number(one.value),
            one.second,
            "—" if one.ratio is None else f"{one.ratio:.3g} times",
        ]
        for one in found
    ]
    over = f", geometric means over {many} instances" if many > 1 else ""
    columns = ["spent", "lowest", measure, "next", "which is higher by"]
    return [Table(f"Who leads at which budget{over}", columns, rows)]


def best_table(series: Sequence[Configuration], chosen: Sequence[Configuration]) -> Table:
    """The best of each panel and q; those that are best of their panel are marked."""
    measure = measure_of(chosen)
    more = [key for key in searched(series) if key not in (*PANELS, "q")]
    more = [key for key in more if not key.startswith(("problem.", "q."))]
    footnotes = Footnotes()
    metrics = list(dict.fromkeys(name for one in chosen for name in one.metrics))
    value = f"final {LABELS[measure]}"
    columns = ["estimator", "q", *more, value, *metrics, "spent per trial", "state", ""]
    rows = []
    panels = panels_of(chosen)
    ahead = {
        panel: min(
            (o for o, p in zip(chosen, panels, strict=True) if p == panel), key=attrgetter("rank")
        )
        for panel in panels
    }
    for one, panel in zip(chosen, panels, strict=True):
        marks = [footnotes.mark(remark) for remark in one.remarks]
        rows.append(
            [
                panel,
                "" if one.block is None else str(one.block),
                *(_word(one.settings.get(key)) for key in more),
                final_value(one, measure),
                *(_word(one.metrics.get(name)) for name in metrics),
                f"{one.spent:,} of {one.budget:,}",
                one.status,
                " ".join([*(["best"] if one is ahead[panel] else []), *marks]),
            ]
        )
    tried = len(series) // max(1, len(chosen))
    chosen_by = (
        f"Each row is the lowest of about {tried} configurations, chosen by the loss that it "
        "shows, which flatters it a little; table.csv has all."
    )
    note = chosen_by if tried > 1 else ""
    return Table("Best by estimator and q", columns, rows, note, footnotes.lines)


def _word(value: Any) -> str:
    return number(value) if isinstance(value, float) else "" if value is None else str(value)


def progress_table(trials: Iterable[Trial]) -> Table:
    """How far trials are that have not ended."""
    rows = [
        [
            trial.name,
            f"{trial.spent:,}",
            f"{trial.budget:,}" if trial.budget else "",
            f"{trial.spent / trial.budget:.0%}" if trial.budget else "",
            _word(trial.row.get("loss")),
        ]
        for trial in trials
    ]
    return Table("How far each trial is", ["trial", "spent", "budget", "", "loss"], rows)


def curve_rows(part: Part, series: Configuration) -> pd.DataFrame:
    """The points of a curve, with what tells it from the others."""
    rows = series.points.rename(columns={"q": "block"})  # q is the setting
    for at, (key, value) in enumerate(_identity(part, series).items()):
        rows.insert(at, key, value)
    return rows


def _identity(part: Part, series: Configuration) -> dict[str, Any]:
    """What tells a series from all others of the report."""
    settings = series.settings
    keys = dict.fromkeys(["estimator", "q", *part.searched])
    problem = {"problem": part.problem} if part.problem else {}
    return {"launch": part.launch.launch, **problem, **{key: settings.get(key) for key in keys}}


def table_rows(part: Part) -> pd.DataFrame:
    """A row for each configuration, as it ended."""
    import pandas as pd

    chosen = {id(one) for one in best(part.series)}
    return pd.DataFrame(
        [
            _identity(part, one)
            | {
                "replicates": one.replicates,
                "spent": one.spent,
                "budget": one.budget,
                "status": one.status,
                **{key: one.last(key) for key in ENDS},
                "estimated_L": one.estimated_smoothness,
                **{key: one.last(key) for key in COUNTERS if key in one.row},
                **one.metrics,
                "best": id(one) in chosen,
            }
            for one in part.series
        ]
    )


def joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all frames."""
    import pandas as pd

    return pd.concat(frames, ignore_index=True)


def final_value(series: Configuration, measure: str) -> str:
    """The last mean of a configuration, with its spread."""
    value, spread = series.last(measure), series.last("loss_std") or 0.0
    return "unknown" if value is None else with_spread(value, spread)
