"""The tables of a report: best configurations, leaders, progress of trials; and CSV files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from zotune.core.ranking import LOSS
from zotune.core.settings import PROBLEM
from zotune.reporting.drawing import LABELS, number, with_spread
from zotune.reporting.footnotes import Footnotes
from zotune.reporting.others import are_others, in_order
from zotune.reporting.page import Table
from zotune.results.configurations import (
    PANELS,
    Configuration,
    best,
    means_differ,
    measure_of,
    panels_of,
    searched,
)
from zotune.results.leaders import leaders
from zotune.results.store import LaunchRecord
from zotune.results.trial import COUNTERS as COUNTS
from zotune.results.trial import VALUES, Trial

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
    """Options of the problem that differ within the launch; empty if none does."""
    series: list[Configuration]
    slug: str
    """Prefix of the names of its figures, if there is more than one part."""

    @cached_property
    def searched(self) -> list[str]:
        """Settings in which its series differ."""
        return searched(self.series)


def leader_tables(some: Sequence[Configuration]) -> list[Table]:
    """The leaders at several budgets, if configurations are comparable."""
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
            "—" if one.ratio is None else _higher(one.ratio),
        ]
        for one in found
    ]
    over = f", geometric means over {many} instances" if many > 1 else ""
    columns = ["spent", "lowest", measure, "next", "which is"]
    return [Table(f"Who leads at which budget{over}", columns, rows)]


def _higher(ratio: float) -> str:
    """A ratio in words: in per cent, or as a multiple from 2 on."""
    return f"{100 * (ratio - 1):.2g} % higher" if ratio < 2 else f"{ratio:.3g} times as high"


def best_table(series: Sequence[Configuration], chosen: Sequence[Configuration]) -> Table:
    """The best of each panel and q; those that are best of their panel are marked."""
    measure = measure_of(chosen)
    more = [key for key in searched(series) if key not in (*PANELS, "q")]
    more = [key for key in more if not key.startswith((PROBLEM, "q."))]
    footnotes = Footnotes()
    metrics = list(dict.fromkeys(name for one in chosen for name in one.metrics))
    value = f"final {LABELS[measure]}"
    geometric = ["geometric mean"] if means_differ(chosen) else []
    shown = [value, *geometric, *metrics]
    columns = ["estimator", "q", *more, *shown, "spent per trial", "state", ""]
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
                *([_word(one.geometric_mean)] if geometric else []),
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
    """The progress of trials that have not ended."""
    trials = list(trials)
    measure = trials[0].aim.metric if trials else LOSS.metric
    rows = [
        [
            trial.name,
            f"{trial.spent:,}",
            f"{trial.budget:,}" if trial.budget else "",
            f"{trial.spent / trial.budget:.0%}" if trial.budget else "",
            _word(trial.row.get(trial.aim.metric)),
        ]
        for trial in trials
    ]
    return Table("How far each trial is", ["trial", "spent", "budget", "", measure], rows)


def curve_rows(parts: Sequence[Part]) -> pd.DataFrame:
    """The points of all curves, each with the columns that identify its curve."""
    import pandas as pd

    series = [(part, one) for part in parts for one in part.series]
    curves = [one.points for _, one in series]
    which = pd.DataFrame([_identity(part, one) for part, one in series])
    repeated = which.loc[which.index.repeat([len(points) for points in curves])]
    points = _in_order(pd.concat(curves, ignore_index=True)).rename(columns={"q": "block"})
    return pd.concat([repeated.reset_index(drop=True), points], axis=1)  # q is the setting


def _in_order(points: pd.DataFrame) -> pd.DataFrame:
    """Columns in one order, counts as whole numbers: the same wherever the points were read."""
    known = [key for key in (*COUNTS, *VALUES) if key in points]
    ordered = points[[*known, *sorted(set(points.columns) - set(known))]]
    counted = [key for key in COUNTS if key in points]
    whole = [key for key in counted if (points[key].dropna() % 1 == 0).all()]
    kinds = {key: "Int64" if points[key].isna().any() else "int64" for key in whole}
    return ordered.astype(kinds)


def _identity(part: Part, series: Configuration) -> dict[str, Any]:
    """The columns that identify a series in the report."""
    settings = series.settings
    first = [] if are_others(part.series) else ["estimator", "q"]
    keys = dict.fromkeys([*first, *part.searched])
    problem = {"problem": part.problem} if part.problem else {}
    return {"launch": part.launch.launch, **problem, **{key: settings.get(key) for key in keys}}


def table_rows(part: Part) -> pd.DataFrame:
    """A row for each configuration, as it ended."""
    import pandas as pd

    others = are_others(part.series)
    chosen = {id(one) for one in (in_order(part.series)[:1] if others else best(part.series))}
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
                **(_counted(one) if "queries" in one.row else {}),
                **one.metrics,
                "best": id(one) in chosen,
            }
            for one in part.series
        ]
    )


def _counted(one: Configuration) -> dict[str, float]:
    return {key: one.last(key) or 0.0 for key in COUNTERS}


def joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all frames."""
    import pandas as pd

    return pd.concat(frames, ignore_index=True)


def final_value(series: Configuration, measure: str) -> str:
    """The last mean of a configuration, with its spread."""
    value, spread = series.last(measure), series.last("loss_std") or 0.0
    return "unknown" if value is None else with_spread(value, spread)
