"""The figures of a report: functions from series (configurations with curves) to drawings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from zotune.reporting.axes import log_x, name_axes, scale
from zotune.reporting.drawing import (
    LABELS,
    MARKERS,
    OKABE_ITO,
    Drawing,
    Mark,
    number,
    panels,
    shade,
    styled,
    with_spread,
)
from zotune.results.configurations import (
    Configuration,
    best,
    means_differ,
    measure_of,
    panel_of,
    panels_of,
)
from zotune.steps import SQRT_DECAY, THEORY

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from zotune.reporting.bounds import Bound

MOST = 8
"""Maximum number of curves in a panel."""
SPENT, SECONDS = "spent", "seconds"
_AXES = {SPENT: "the budget spent", SECONDS: "wall time"}
"""Names of the horizontal axes of curves."""
BOUND, EVERY = "theory bound", "every q"
BESIDE = 1.05
"""Neighbouring lines are shifted in q by this factor, so that they do not overlap."""
SAME = 0.05
"""Bounds with a smaller relative difference are drawn as one."""


@dataclass(frozen=True)
class Look:
    """Colour and marker of the curves of one q."""

    key: str
    colour: Any
    marker: str
    rank: int


def curves(
    series: Sequence[Configuration],
    *,
    name: str = "curves",
    measure: str | None = None,
    bounds: Mapping[int, Bound] | None = None,
    against: str = SPENT,
    legend: bool = True,
) -> Drawing:
    """Loss or gap against spent budget or time: one panel per estimator, one colour per q.

    Args:
        series: one for each panel and q.
        name: name of the drawing and its files.
        measure: gap, loss, best_gap, best_loss, grad_norm2, average_gap or any recorded metric;
            default: gap if it is known, else loss.
        bounds: bounds of the theory by the index of their series, drawn dashed.
        against: ``spent``, or ``seconds`` of wall time if recorded.
        legend: whether to draw a legend.
    """
    measure = measure or measure_of(series)
    label = LABELS.get(measure, measure)
    by_panel = _by_panel(series)
    figure, axes = panels(len(by_panel))
    drawing = Drawing(name, f"{label} against {_AXES[against]}", figure)
    looks = _looks(series)
    entries: dict[str, Any] = {}
    with styled():
        lines = [values_of(one, measure) for one in series]
        scale(axes, lines, linear=measure not in LABELS)
        for axis, (title, mine) in zip(axes, by_panel.items(), strict=True):
            shown = sorted(sorted(mine, key=lambda at: _end(series[at], measure))[:MOST])
            if len(shown) < len(mine):
                drawing.notes.append(
                    f"{title}: the {len(shown)} lowest of {len(mine)} curves are drawn; "
                    "curves.csv has all."
                )
            for at in shown:
                look = looks[series[at].block]
                line = _curve(drawing, axis, series[at], measure, look, against)
                entries.setdefault(look.key, line)
            here = {at: bounds[at] for at in shown if bounds and at in bounds}
            if here and (above := _all_above(here.values(), axis)):
                drawing.notes.append(f"{title}: {above}")
                here = {}
            for whose, bound in _merged(here):
                look_of = None if whose is None else looks[series[whose].block]
                entries.setdefault(BOUND, _dashed(drawing, axis, bound, look_of))
            axis.set_title(title)
        spent = f"{series[0].config.get('count', 'budget')} spent"
        name_axes(axes, spent if against == SPENT else "seconds", label)
    dashed = entries.pop(BOUND, None)
    entries = {look.key: entries[look.key] for look in looks.values() if look.key in entries}
    if legend:
        drawing.add_legend(entries if dashed is None else {**entries, BOUND: dashed})
    if measure in ("gap", "loss"):
        drawing.notes.append(spread_note(series, "Bands"))
    return drawing


def values_of(series: Configuration, measure: str) -> pd.Series:
    """The values to draw; for gradients the minimum so far, as in the theorems."""
    points = series.points
    if measure == "grad_norm2":
        return points["grad_norm2"].cummin()
    if measure == "best_gap":
        return points["best_loss"] - (points["loss"] - points["gap"])
    if measure == "average_gap":
        return points["average_loss"] - (points["loss"] - points["gap"])
    return points[measure]


def spread_note(series: Iterable[Configuration], what: str) -> str:
    """A note on the meaning of bands or bars."""
    counts = sorted({one.replicates for one in series})
    if counts == [1]:
        return f"{what}: none, because each configuration was run once."
    many = " or ".join(str(count) for count in counts)
    return (
        f"{what}: the mean ± one standard deviation over {many} replicates (not its error); one "
        "that reaches the bottom of a logarithmic axis is wider than the mean is high."
    )


def _by_panel(series: Sequence[Configuration]) -> dict[str, list[int]]:
    """Indices of the series of each panel."""
    found: dict[str, list[int]] = {}
    for at, title in enumerate(panels_of(series)):
        found.setdefault(title, []).append(at)
    return found


def _looks(series: Iterable[Configuration]) -> dict[int | str | None, Look]:
    """A look for each q, in order; rules come after numbers."""
    sizes = sorted({one.block for one in series}, key=lambda q: (isinstance(q, str), q or 0))
    return {
        q: Look(
            key="all" if q is None else f"q = {q}",
            colour=shade(rank, len(sizes)),
            marker=MARKERS[rank % len(MARKERS)],
            rank=rank,
        )
        for rank, q in enumerate(sizes)
    }


def _end(series: Configuration, measure: str) -> float:
    return float(values_of(series, measure).iloc[-1])


def _curve(
    drawing: Drawing, axis: Axes, series: Configuration, measure: str, look: Look, against: str
) -> Any:
    """A line with its band and few markers; returns the line, for the legend."""
    spent, value = series.points[against], values_of(series, measure)
    step = max(1, len(spent) // 8)
    (line,) = axis.plot(
        spent,
        value.where(value > 0) if axis.get_yscale() == "log" else value,
        color=look.colour,
        marker=look.marker,
        markevery=(step * (1 + look.rank) // 9, step),
        label=look.key,
    )
    parts = [drawing.identify(line)]
    spread = series.points["loss_std"] if measure in ("gap", "loss") else 0 * value
    if spread.max() > 0:
        floor = axis.get_ylim()[0]
        low = (value - spread).clip(lower=floor)
        band = axis.fill_between(
            spent, low, value + spread, color=look.colour, alpha=0.18, linewidth=0
        )
        parts.append(drawing.identify(band))
    said = [
        f"{_at(s, against)}: {with_spread(v, d)}"
        for s, v, d in zip(spent, value, spread, strict=True)
    ]
    name = f"{panel_of(series, [series])}, {look.key}"
    drawing.marks.append(Mark(axis, name, list(spent), list(value), said, [look.key], parts))
    return line


def _at(value: float, against: str) -> str:
    """A place on the horizontal axis."""
    return f"{value:,.0f} spent" if against == SPENT else f"{value:,.3g} s"


def _all_above(bounds: Iterable[Bound], axis: Axes) -> str:
    """A note if all bounds are above the drawn range; else empty."""
    ends = [bound.values[-1] for bound in bounds]
    if min(ends) < axis.get_ylim()[1]:
        return ""
    return f"the bound ends at {number(min(ends))} at best, above everything that is drawn."


def _merged(bounds: Mapping[int, Bound]) -> list[tuple[int | None, Bound]]:
    """Bounds with their series; a single one for all if they hardly differ."""
    if len(bounds) > 1:
        ends = [bound.values[-1] for bound in bounds.values()]
        if max(ends) <= (1 + SAME) * min(ends):
            return [(None, max(bounds.values(), key=lambda bound: len(bound.spent)))]
    return list(bounds.items())


def _dashed(drawing: Drawing, axis: Axes, bound: Bound, look: Look | None) -> Any:
    """A bound, of one q or of all."""
    (line,) = axis.plot(
        bound.spent,
        bound.values,
        color="black" if look is None else look.colour,
        linestyle=(0, (4, 2)),
        linewidth=1.1,
        label=BOUND,
    )
    said = [f"{s:,} spent: {number(v)}" for s, v in zip(bound.spent, bound.values, strict=True)]
    whose = EVERY if look is None else look.key
    keys = [BOUND] if look is None else [BOUND, look.key]
    parts = [drawing.identify(line)]
    drawing.marks.append(
        Mark(axis, f"{BOUND}, {whose}", bound.spent, bound.values, said, keys, parts)
    )
    return line


def final(series: Sequence[Configuration], *, name: str = "final") -> Drawing:
    """Final loss or gap against q, one line per estimator, with error bars of one deviation."""
    series = [one for one in series if not isinstance(one.block, str)]  # a rule has no number q
    measure = measure_of(series)
    figure, (axis,) = panels(1)
    drawing = Drawing(name, f"Final {LABELS[measure]} against q", figure)
    entries: dict[str, Any] = {}
    geometric = means_differ(series)
    with styled():
        lowest = [[one.geometric_mean] for one in series if geometric and one.geometric_mean]
        scale([axis], [*(_with_bars(one, measure) for one in series), *lowest])
        _q_axis(axis, series)
        groups = _by_panel(series)
        for rank, (title, mine) in enumerate(groups.items()):
            points = [(float(series[at].q or 0), _end(series[at], measure)) for at in mine]
            bars = [series[at].last("loss_std") or 0.0 for at in mine]
            place = rank, len(groups)
            entries[title] = _across(drawing, axis, title, place, points, bars)
            if geometric:
                _open_marks(drawing, axis, title, place, [series[at] for at in mine])
        name_axes([axis], "q, directions a step", f"final {LABELS[measure]}")
    drawing.add_legend(entries)
    drawing.notes.append(spread_note(series, "Bars"))
    drawing.notes += [OPEN_MARKS] if geometric else []
    unfinished = [one for one in series if not one.is_whole]
    if unfinished:
        drawing.notes.append(
            f"{len(unfinished)} of {len(series)} configurations have not spent their budget; "
            "the figure has what they reached."
        )
    return drawing


OPEN_MARKS = (
    "Filled marks are arithmetic means, open marks geometric means over replicates; claims about "
    "means compare geometric ones."
)


def _open_marks(
    drawing: Drawing,
    axis: Axes,
    title: str,
    place: tuple[int, int],
    series: Sequence[Configuration],
) -> None:
    """Geometric means beside the arithmetic ones of a line, where they are known."""
    known = [(float(one.q or 0), one.geometric_mean) for one in series]
    points = sorted((q, mean) for q, mean in known if mean is not None)
    if not points:
        return
    rank, lines = place
    x = [q * BESIDE ** (rank - (lines - 1) / 2) for q, _ in points]
    y = [mean for _, mean in points]
    marker, colour = MARKERS[rank % len(MARKERS)], OKABE_ITO[rank % len(OKABE_ITO)]
    (marks,) = axis.plot(x, y, marker=marker, color=colour, linestyle="none", fillstyle="none")
    told = [f"q = {q:g}: geometric mean {number(mean)}" for q, mean in points]
    parts = [drawing.identify(marks)]
    drawing.marks.append(Mark(axis, f"{title}, geometric mean", x, y, told, [title], parts))


def _with_bars(series: Configuration, measure: str) -> list[float]:
    """The ends of an error bar; the lower one only if it is positive enough for a log axis."""
    value, spread = _end(series, measure), series.last("loss_std") or 0.0
    return [value, value + spread, *([value - spread] if spread < 0.9 * value else [])]


def _across(
    drawing: Drawing,
    axis: Axes,
    title: str,
    place: tuple[int, int],
    points: Sequence[tuple[float, float]],
    bars: Sequence[float] | None = None,
) -> Any:
    """A line through few points, with bars; returns the line, for the legend.

    ``place`` is its rank and the number of lines, by which it is shifted in q.
    """
    q, y = zip(*sorted(points), strict=True)
    rank, lines = place
    x = [at * BESIDE ** (rank - (lines - 1) / 2) for at in q]
    style: dict[str, Any] = {
        "color": OKABE_ITO[rank % len(OKABE_ITO)],
        "marker": MARKERS[rank % len(MARKERS)],
        "linestyle": ("-", "--", "-.", ":")[rank % 4],
    }
    (line,) = axis.plot(x, y, label=title, **style)
    parts, said = [drawing.identify(line)], [number(v) for v in y]
    if bars is not None and max(bars) > 0:
        order = sorted(range(len(points)), key=lambda at: points[at])
        spread = np.array([bars[at] for at in order])
        low = np.minimum(spread, np.maximum(0, np.array(y) - axis.get_ylim()[0]))
        drawn = axis.errorbar(x, y, [low, spread], fmt="none", ecolor=style["color"], capsize=3)
        parts += [drawing.identify(part) for part in (*drawn[1], *drawn[2])]
        said = [with_spread(v, d) for v, d in zip(y, spread, strict=True)]
    told = [f"q = {at:g}: {words}" for at, words in zip(q, said, strict=True)]
    drawing.marks.append(Mark(axis, title, x, y, told, [title], parts))
    return line


def _q_axis(axis: Axes, series: Sequence[Configuration]) -> None:
    """A logarithmic axis of q; a single q is centred."""
    sizes = {one.q for one in series if one.q}
    log_x(axis, sizes)
    if len(sizes) == 1:
        (q,) = sizes
        axis.set_xlim(q / 2, 2 * q)


def best_steps(series: Sequence[Configuration], *, name: str = "best-step") -> Drawing:
    """The step size with the lowest final loss against q, one line per estimator."""
    chosen = [one for one in best(series) if one.eta is not None]
    chosen = [one for one in chosen if not isinstance(one.block, str)]  # a rule has no number q
    figure, (axis,) = panels(1)
    label = step_label(series)
    drawing = Drawing(name, f"Best {label} against q", figure)
    with styled():
        scale([axis], [[one.eta for one in series if one.eta is not None]])
        _q_axis(axis, chosen)
        groups = _by_panel(chosen)
        entries = {
            title: _across(
                drawing,
                axis,
                title,
                (rank, len(groups)),
                [(float(chosen[at].q or 0), chosen[at].eta or 0.0) for at in mine],
            )
            for rank, (title, mine) in enumerate(groups.items())
        }
        name_axes([axis], "q, directions a step", f"best {label}")
    drawing.add_legend(entries)
    drawing.notes += _edges(series, chosen)
    return drawing


def step_label(series: Sequence[Configuration]) -> str:
    """The label of eta, by step rule."""
    rules = {str(one.config.get("step")) for one in series}
    known = {THEORY: "step (a multiple of the theory's)", SQRT_DECAY: "first step η₀"}
    return known.get(rules.pop(), "step size η") if len(rules) == 1 else "eta"


def _edges(series: Sequence[Configuration], chosen: Sequence[Configuration]) -> list[str]:
    """A note on best steps at an end of the searched range, which may not be optimal."""
    tried = sorted({one.eta for one in series if one.eta is not None})
    at_edge = [
        f"{panel_of(one, series)} q = {one.block}"
        for one in chosen
        if len(tried) > 1 and one.eta in (tried[0], tried[-1])
    ]
    if not at_edge:
        return []
    return [
        f"At the edge of the steps that were searched ({number(tried[0])} to {number(tried[-1])}), "
        f"so that a better one may lie outside: {', '.join(at_edge)}."
    ]


def losses_by_step(series: Sequence[Configuration], *, name: str = "loss-by-step") -> Drawing:
    """Final loss or gap against the step size: one panel per estimator, one colour per q."""
    measure = measure_of(series)
    known = [one for one in series if one.eta is not None and isfinite(_end(one, measure))]
    by_panel = _by_panel(known)
    figure, axes = panels(len(by_panel))
    label = step_label(series)
    drawing = Drawing(name, f"Final {LABELS[measure]} against the {label}", figure)
    looks = _looks(known)
    entries: dict[str, Any] = {}
    with styled():
        start = max(float(values_of(one, measure).iloc[0]) for one in known)
        scale(axes, [[_end(one, measure) for one in known]], top=start)
        for axis, (title, mine) in zip(axes, by_panel.items(), strict=True):
            log_x(axis, [one.eta for one in known])
            for q, look in looks.items():
                points = [
                    (known[at].eta or 0.0, _end(known[at], measure))
                    for at in mine
                    if known[at].block == q
                ]
                if points:
                    line = _by_eta(drawing, axis, f"{title}, {look.key}", sorted(points), look)
                    entries.setdefault(look.key, line)
            axis.set_title(title)
        name_axes(axes, label, f"final {LABELS[measure]}")
    drawing.add_legend({key: entries[key] for key in (lk.key for lk in looks.values())})
    drawing.notes.append("Rings mark the lowest of each q.")
    if means_differ(known):
        drawing.notes.append(
            "All are arithmetic means; claims choose the step and compare by geometric means."
        )
    if any(_end(one, measure) > start for one in known):
        drawing.notes.append("A line that leaves at the top ends above the start: it diverges.")
    return drawing


def _by_eta(
    drawing: Drawing, axis: Axes, name: str, points: Sequence[tuple[float, float]], look: Look
) -> Any:
    x, y = zip(*points, strict=True)
    (line,) = axis.plot(x, y, color=look.colour, marker=look.marker, label=look.key)
    lowest = int(np.argmin(y))
    ring = axis.plot(x[lowest], y[lowest], "o", markersize=11, fillstyle="none", color=look.colour)[
        0
    ]
    said = [f"eta = {number(e)}: {number(v)}" for e, v in points]
    parts = [drawing.identify(line), drawing.identify(ring)]
    drawing.marks.append(Mark(axis, name, x, y, said, [look.key], parts))
    return line
