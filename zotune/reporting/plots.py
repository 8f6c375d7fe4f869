"""What results show of themselves: ``.plot()`` and, in a notebook, a summary with its curve.

``Run`` and ``StudyResults`` are of rooms below this one and name it only when they are asked to
draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from zotune.errors import ConfigError
from zotune.reporting import figures
from zotune.reporting.drawing import Drawing, number, with_spread
from zotune.reporting.series import Series, best, from_run, measure_of, panel_of

if TYPE_CHECKING:
    from zotune.runs.run import Run

Runs = Sequence["Run"] | Mapping[str, "Run"]


def plot_runs(runs: Runs, *, measure: str | None = None) -> Drawing:
    """Loss or gap of some runs against spent budget.

    Args:
        runs: runs, which are told apart by estimator and q, or a mapping of names to runs.
        measure: gap, loss or grad_norm2; the gap where the minimum is known unless given.
    """
    if isinstance(runs, Mapping):
        series = [_named(from_run(run), name) for name, run in runs.items()]
    else:
        series = [from_run(run) for run in runs]
    return figures.curves(series, measure=measure)


def _named(series: Series, name: str) -> Series:
    """The series under a name of its own."""
    return Series(
        {**series.config, "estimator": name},
        series.points,
        series.replicates,
        series.status,
        (name,),
        series.estimated_smoothness,
    )


def plot_results(runs: Iterable[Run]) -> Drawing:
    """The best of each estimator and q of a study; an error where nothing has a curve."""
    series = [from_run(run) for run in runs]
    if not series:
        raise ConfigError("no trial has a checkpoint to plot; a study needs one that has ended")
    return figures.curves(best(series))


def run_html(run: Run) -> str:
    """A run for a notebook: what came out, what was chosen, and the curve."""
    rows = [
        ("status", run.status),
        ("best loss", number(run.best_loss)),
        ("spent", f"{run.spent:,} of {run.config.budget:,} {run.config.count}"),
        *([("ended", run.message)] if run.message else []),
        *run.chosen.items(),
    ]
    return _html(rows, plot_runs([run]))


def results_html(runs: Iterable[Run]) -> str:
    """The results of a study for a notebook: the best of each estimator and q, and the curves."""
    chosen = best([from_run(run) for run in runs])
    if not chosen:
        return "<p>No trial has ended yet.</p>"
    measure = measure_of(chosen)
    rows = [
        (
            f"{panel_of(one, chosen)}, q = {one.q}",
            with_spread(one.last(measure) or 0.0, one.last("loss_std") or 0.0),
        )
        for one in chosen
    ]
    return _html([("", f"final {figures.LABELS[measure]}"), *rows], figures.curves(chosen))


def _html(rows: Iterable[tuple[str, str]], drawing: Drawing) -> str:
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f"<div><table>{cells}</table>{drawing.svg}</div>"
