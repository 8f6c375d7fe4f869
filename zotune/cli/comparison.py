"""``zotune compare``: run several configurations in this process, with a table and a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotune.errors import ConfigError
from zotune.results.checkpoints import from_run
from zotune.results.configurations import Configuration
from zotune.runs.minimize import minimize
from zotune.runs.run import Run

if TYPE_CHECKING:
    from rich.table import Table


FIGURES = (".png", ".svg", ".pdf", ".jpg")
"""File extensions of figures."""


def require(budget: int, figure: Path) -> None:
    """Raise an error for an invalid budget or figure before the first run."""
    if budget < 1:
        raise ConfigError(f"budget must cover one direction, got {budget}; give --budget 1 or more")
    if figure.suffix.lower() not in FIGURES:
        raise ConfigError(
            f"a figure's name must end in {', '.join(FIGURES[:-1])} or {FIGURES[-1]}, "
            f"got {figure.name!r}; choose another with -o"
        )


def compare(
    problem: Mapping[str, Any],
    *,
    estimators: Sequence[str],
    block_sizes: Sequence[int],
    on_run: Callable[[str], None] = lambda label: None,
    **settings: Any,
) -> list[Run]:
    """Run every estimator with every q under one budget, on shared draws.

    Args:
        problem: what is minimised.
        estimators: names of estimators.
        block_sizes: values of q.
        on_run: called with a label before each run.
        settings: passed on to ``zotune.minimize``.
    """
    runs = []
    for estimator in estimators:
        for q in block_sizes:
            on_run(f"{estimator} q={q}")
            runs.append(minimize(problem, estimator=estimator, q=q, **settings))
    return runs


def table(runs: Sequence[Run]) -> Table:
    """Final loss by estimator and q, the best of each estimator marked."""
    from rich.table import Table

    columns = ["estimator", "q", "steps", "evaluations", "final gap", "± std", ""]
    shown = Table(*columns, title=f"after {runs[0].config.budget} {runs[0].config.count}")
    trials = [from_run(run) for run in runs]
    for run, trial in zip(runs, trials, strict=True):
        last = run.rows[-1]
        same = [one for one in trials if one.config["estimator"] == trial.config["estimator"]]
        best = trial is min(same, key=lambda one: one.rank)
        value = last["loss"] if last["gap"] is None else last["gap"]
        shown.add_row(
            run.config.estimator,
            str(run.config.q),
            str(last["steps"]),
            str(last["evaluations"]),
            f"{value:.5g}",
            f"{last['loss_std']:.2g}",
            ", ".join([*(["best"] if best else []), *trial.remarks]),
        )
    return shown


def plot(runs: Sequence[Run], path: Path) -> Path:
    """Gap against spent budget, one panel per estimator; lines are distinguishable in grey."""
    from zotune.reporting.figures import curves

    return curves([Configuration((from_run(run),)) for run in runs]).save_as(path)
