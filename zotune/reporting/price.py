"""The price of tuning: the best result of a study against its total spending."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zotune.reporting.axes import name_axes, scale, tick
from zotune.reporting.drawing import LABELS, OKABE_ITO, Drawing, Mark, number, panels, styled
from zotune.results.configurations import Configuration, measure_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STUDY, ALONE = "whole study", "best alone"
Line = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]
"""Total spending, and the best value so far."""


def best_so_far(some: Sequence[Configuration], *, name: str = "price") -> Drawing:
    """The best mean value so far against the total charge of all trials and replicates."""
    from matplotlib.ticker import FuncFormatter

    measure = measure_of(some)
    best = min(some, key=lambda one: one.rank)
    in_order = sorted(some, key=lambda one: min(trial.id for trial in one.trials))
    lines = {STUDY: _together(in_order, measure), ALONE: _together([best], measure)}
    figure, (axis,) = panels(1)
    title = f"Best {LABELS[measure]} so far against everything that was spent"
    drawing = Drawing(name, title, figure)
    with styled():
        scale([axis], [values for _, values in lines.values()])
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
        entries = {key: _line(drawing, axis, key, *lines[key]) for key in lines}
        count = some[0].config.get("count", "budget")
        name_axes([axis], f"{count} spent, all replicates", f"best {LABELS[measure]} so far")
    drawing.add_legend(entries)
    drawing.notes.append(price_note(*(int(spent[-1]) for spent, _ in lines.values())))
    return drawing


def _together(some: Sequence[Configuration], measure: str) -> Line:
    """Configurations concatenated in time; only points with an improvement."""
    spent: list[Any] = []
    values: list[Any] = []
    before = 0.0
    for one in some:
        spent.append(before + one.points["spent"].to_numpy(float) * one.replicates)
        values.append(one.points[measure].to_numpy(float))
        before = float(spent[-1][-1])
    x, y = np.concatenate(spent), np.fmin.accumulate(np.concatenate(values))
    kept = np.flatnonzero(np.diff(y, prepend=np.inf) < 0)
    kept = np.union1d(kept, [len(y) - 1])
    return x[kept], y[kept]


def _line(drawing: Drawing, axis: Axes, key: str, x: Any, y: Any) -> Any:
    study = key == STUDY
    (line,) = axis.plot(
        x,
        y,
        drawstyle="steps-post",
        color=OKABE_ITO[0 if study else 1],
        linestyle="-" if study else "--",
        label=key,
    )
    said = [f"{s:,.0f} spent: {number(v)}" for s, v in zip(x, y, strict=True)]
    drawing.marks.append(Mark(axis, key, list(x), list(y), said, [key], [drawing.identify(line)]))
    return line


def price_note(whole: int, alone: int) -> str:
    """A note that compares the spending of the study with that of its best configuration."""
    return (
        "Configurations stand one after another in the order in which they began, as one simulator "
        f"would run them. The study spent {whole:,}; its best configuration, had it been known, "
        f"would have spent {alone:,}: {whole / max(1, alone):.3g} times less."
    )
