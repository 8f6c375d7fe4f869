"""Several configurations of one problem, in this process, with a table and a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotune.run import Run, minimize

if TYPE_CHECKING:
    from rich.table import Table

    from zotune.weights.checkpoint import WeightsRun


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
    for run in runs:
        last = run.rows[-1]
        same = [other for other in runs if other.config.estimator == run.config.estimator]
        best = min(same, key=lambda other: float(other.rows[-1]["loss"]))
        value = last["loss"] if last["gap"] is None else last["gap"]
        shown.add_row(
            run.config.estimator,
            str(run.config.q),
            str(last["steps"]),
            str(last["evaluations"]),
            f"{value:.5g}",
            f"{last['loss_std']:.2g}",
            "best" if run is best else "",
        )
    return shown


def plot(runs: Sequence[Run | WeightsRun], path: Path) -> Path:
    """Gap against spent budget, a panel an estimator; lines differ in grey as in colour."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    estimators = list(dict.fromkeys(run.config.estimator for run in runs))
    block_sizes = sorted({run.config.q for run in runs})
    colours = plt.get_cmap("viridis")
    dashes = ["-", "--", "-.", ":", (0, (1, 1))]
    figure, axes = plt.subplots(
        1, len(estimators), figsize=(4.2 * len(estimators), 3.6), sharey=True, squeeze=False
    )
    for axis, estimator in zip(axes[0], estimators, strict=True):
        for run in (run for run in runs if run.config.estimator == estimator):
            rank = block_sizes.index(run.config.q)
            curve = run.curve
            value = curve["loss"] if curve["gap"].isna().any() else curve["gap"]
            line = {
                "color": colours(0.85 * rank / max(1, len(block_sizes) - 1)),
                "linestyle": dashes[rank % len(dashes)],
            }
            axis.plot(curve["spent"], value, label=f"q = {run.config.q}", **line)
            low, high = value - curve["loss_std"], value + curve["loss_std"]
            positive = low.clip(lower=value.min() / 10)
            axis.fill_between(curve["spent"], positive, high, color=line["color"], alpha=0.15)
        axis.set(title=estimator, xlabel=f"{runs[0].config.count} spent", yscale="log")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    known = all(run.minimum is not None for run in runs)
    axes[0][0].set_ylabel("f(x) − f*" if known else "f(x)")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
