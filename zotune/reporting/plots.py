"""``.plot()`` of results, and their summaries in notebooks.

``Run`` and ``StudyResults`` are in rooms that must not import this one; they load it lazily through
``zotune.core.pictures``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from zotune.errors import ConfigError, one_of
from zotune.reporting import figures
from zotune.reporting.drawing import LABELS, Drawing, number, with_spread
from zotune.results.checkpoints import from_run
from zotune.results.configurations import Configuration, best, measure_of, panel_of

if TYPE_CHECKING:
    from zotune.runs.run import Run

Runs = Sequence["Run"] | Mapping[str, "Run"]


def plot_runs(runs: Runs, *, measure: str | None = None) -> Drawing:
    """Loss or gap of some runs against spent budget.

    Args:
        runs: runs, labelled by estimator and q, or a mapping of names to runs.
        measure: gap, loss, grad_norm2, best_gap, best_loss or your own metric. Default: the gap if
            the minimum is known, else the loss; for the automatic descent, which restarts after
            convergence, that of the best point so far.
    """
    if isinstance(runs, Mapping):
        some = [_named(run, name) for name, run in runs.items()]
    else:
        some = _each(runs)
    if measure is None and all(run.config.replays for run in _runs(runs)):
        measure = f"best_{measure_of(some)}"
    if measure is not None:
        one_of("measure", measure, _measures(some))
    return figures.curves(some, measure=measure, legend=len(some) > 1)


def _measures(some: Iterable[Configuration]) -> list[str]:
    """The measures for which all of these have a curve."""
    shared = set.intersection(*(set(map(str, one.points.columns)) for one in some))
    needed = {"best_gap": {"gap"}, "average_gap": {"gap", "average_loss"}}
    return sorted(shared | {name for name, columns in needed.items() if columns <= shared})


def _runs(runs: Runs) -> Iterable[Run]:
    return runs.values() if isinstance(runs, Mapping) else runs


def _each(runs: Iterable[Run]) -> list[Configuration]:
    """A configuration for each run."""
    return [Configuration((from_run(run, str(at)),)) for at, run in enumerate(runs)]


def _named(run: Run, name: str) -> Configuration:
    """The configuration of a run with a given name."""
    trial = from_run(run, name)
    return Configuration((replace(trial, config={**trial.config, "estimator": name}),))


def plot_results(runs: Iterable[Run]) -> Drawing:
    """The best of each estimator and q of a study; raises an error if there are no curves."""
    some = _each(runs)
    if not some:
        raise ConfigError("no trial has a checkpoint to plot; a study needs one that has ended")
    return figures.curves(best(some))


def run_html(run: Run) -> str:
    """A run for a notebook: the result, the chosen settings, and the curve."""
    rows = [
        ("status", run.status),
        ("best loss", number(run.best_loss)),
        ("spent", f"{run.spent:,} of {run.config.budget:,} {run.config.count}"),
        *([("ended", run.message)] if run.message else []),
        *((key, str(one)) for key, one in run.chosen.items()),
    ]
    return _html(rows, plot_runs([run]))


def results_html(runs: Iterable[Run]) -> str:
    """The results of a study for a notebook: the best of each estimator and q, and the curves."""
    chosen = best(_each(runs))
    if not chosen:
        return "<p>No trial has ended yet.</p>"
    measure = measure_of(chosen)
    rows = [
        (
            f"{panel_of(one, chosen)}, q = {one.block}",
            with_spread(one.last(measure) or 0.0, one.last("loss_std") or 0.0),
        )
        for one in chosen
    ]
    return _html([("", f"final {LABELS[measure]}"), *rows], figures.curves(chosen))


def _html(rows: Iterable[tuple[str, str]], drawing: Drawing) -> str:
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f"<div><table>{cells}</table>{drawing.svg}</div>"
