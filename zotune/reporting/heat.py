"""A heat map of final losses over q and step size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zotune.reporting.axes import label_few_decades, tick
from zotune.reporting.drawing import LABELS, Drawing, Mark, number, panels, styled
from zotune.reporting.figures import step_label
from zotune.results.configurations import Configuration, measure_of, panels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 10
"""Maximum number of individual values of q or step; more are binned into logarithmic ranges."""
WRITTEN = 48
"""Maximum number of cells of a panel for which numbers are written in the cells."""


def heat_map(some: Sequence[Configuration], *, name: str = "heat-map") -> Drawing:
    """The lowest final loss or gap for each q and step: one panel per estimator, dark is low.

    Values above the start are shown as that of the start.
    """
    from matplotlib.ticker import FuncFormatter

    known = [one for one in some if one.q and one.eta]
    measure, titles = measure_of(known), panels_of(known)
    values = [capped(one, measure) for one in known]
    x, y = (_edges(sorted({float(v) for v in each})) for each in _axes_of(known))
    names = list(dict.fromkeys(titles))
    figure, axes = panels(len(names))
    drawing = Drawing(name, f"Final {LABELS[measure]} over q and step", figure)
    low, high = min(values), max(values)
    with styled():
        for axis, title in zip(axes, names, strict=True):
            mine = [at for at, panel in enumerate(titles) if panel == title]
            cells = _cells([known[at] for at in mine], [values[at] for at in mine], x, y)
            shown = _panel(drawing, axis, title, cells, (x, y), (low, high))
        plain = FuncFormatter(lambda value, _: tick(value))
        bar = figure.colorbar(shown, ax=axes, label=f"final {LABELS[measure]}", format=plain)
        bar.ax.tick_params(labelsize="small")
        if low > 0 and high > low:
            label_few_decades([bar.ax], high / low)
        figure.supxlabel("q, directions a step", fontsize="medium")
        figure.supylabel(step_label(known), fontsize="medium")
    drawing.notes.append(
        "Each cell is the lowest final value of its q and step; what ends above its start, or "
        "diverges, has the start's. White: not tried."
    )
    return drawing


def _axes_of(known: Sequence[Configuration]) -> tuple[list[int], list[float]]:
    return [one.q or 0 for one in known], [one.eta or 0.0 for one in known]


def capped(one: Configuration, measure: str) -> float:
    """The final value of a configuration, limited by the value at its start."""
    start, value = float(one.points[measure].iloc[0]), one.last(measure)
    return start if value is None else min(start, value)


Labels = list[tuple[float, str]]
"""The upper end of each range, and its label."""


def _edges(values: Sequence[float]) -> Labels:
    """A cell for each value if they are few, else for each logarithmic range."""
    if len(values) <= BINS:
        return [(value, f"{value:.4g}") for value in values]
    ends = np.geomspace(values[0], values[-1], BINS + 1)
    return [(float(end), f"{begin:.2g}–{end:.2g}") for begin, end in itertools.pairwise(ends)]


def _place(value: float, edges: Labels) -> int:
    ends = [end * (1 + 1e-12) for end, _ in edges]
    return min(int(np.searchsorted(ends, value)), len(edges) - 1)


def _cells(some: Sequence[Configuration], values: Sequence[float], x: Labels, y: Labels) -> Any:
    cells = np.full((len(y), len(x)), np.nan)
    for one, value in zip(some, values, strict=True):
        at = _place(one.eta or 0.0, y), _place(float(one.q or 0), x)
        cells[at] = np.fmin(cells[at], value)
    return cells


def _written(value: float) -> str:
    """A number in a cell, with two digits.

    >>> _written(14231.0), _written(0.3761), _written(1.44e-7)
    ('14,000', '0.38', '1.4e-7')
    """
    rounded = float(f"{value:.2g}")
    if 1e-3 <= rounded < 1e6:
        return tick(rounded)
    return f"{rounded:.2g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def _panel(
    drawing: Drawing,
    axis: Axes,
    title: str,
    cells: Any,
    labels: tuple[Labels, Labels],
    limits: tuple[float, float],
) -> Any:
    from matplotlib.colors import LogNorm, Normalize

    low, high = limits
    norm = (LogNorm if low > 0 and high > low else Normalize)(low, high)
    shown = axis.pcolormesh(np.ma.masked_invalid(cells), cmap="viridis", norm=norm)
    axis.grid(visible=False)
    for ticks, named in zip((axis.set_xticks, axis.set_yticks), labels, strict=True):
        ticks(np.arange(len(named)) + 0.5, [words for _, words in named], fontsize="small")
    known = np.argwhere(np.isfinite(cells))
    for row, column in known if cells.size <= WRITTEN else []:
        dark = norm(cells[row, column]) < 0.5
        text = _written(cells[row, column])
        colour = "white" if dark else "black"
        axis.text(column + 0.5, row + 0.5, text, color=colour, ha="center", va="center", size=7)
    said = [
        f"q = {labels[0][c][1]}, eta = {labels[1][r][1]}: {number(cells[r, c])}" for r, c in known
    ]
    centres = [c + 0.5 for _, c in known], [r + 0.5 for r, _ in known]
    drawing.marks.append(Mark(axis, title, *centres, said, [], []))
    axis.set_title(title)
    return shown
