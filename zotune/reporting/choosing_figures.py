"""Choose the figures for the configurations of one problem."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from zotune.reporting import figures
from zotune.reporting.attempts import Making, plainly
from zotune.reporting.bounds import Bound, bounds_of, notes_on
from zotune.reporting.drawing import Drawing
from zotune.reporting.heat import heat_map
from zotune.reporting.price import best_so_far
from zotune.results.configurations import Configuration, best, measure_of, searched
from zotune.results.trial import is_metric

if TYPE_CHECKING:
    import pandas as pd

MOST_METRICS = 6
"""Maximum number of metrics besides the loss that are drawn; the tables have all."""
MOST_WHOLE = 2
"""Number of problem instances of a launch for which all figures are drawn."""
BEST_STEPS = ", each q at its best step"


def drawings(
    series: Sequence[Configuration],
    chosen: Sequence[Configuration],
    slug: str = "",
    attempt: Making = plainly,
) -> list[Drawing]:
    """All figures that are possible for the series; ``chosen`` is the best of each panel and q.

    ``attempt`` makes each of them, and may leave one out that cannot be drawn.
    """
    found = attempt("the curves", lambda: _curves(series, chosen, slug))
    for name, draw in _others(series, chosen, slug):
        found += attempt(f"the figure {slug}{name}", draw)
    return [*found, *attempt("the figures of metrics", lambda: _of_metrics(chosen, found, slug))]


def _curves(
    series: Sequence[Configuration], chosen: Sequence[Configuration], slug: str
) -> list[Drawing]:
    """The curves, with the bounds beside them or in a figure of their own."""
    bounds, reasons = bounds_of(series)
    with_bound = best([series[at] for at in bounds])
    measure = measure_of(chosen)
    of_chosen = _bounds_of(chosen, series, bounds)
    beside = bool(of_chosen) and len(of_chosen) == len(chosen) and of_chosen[0].measure == measure
    first = figures.curves(chosen, name=f"{slug}curves", bounds=of_chosen if beside else None)
    if "eta" in searched(series):
        first.title += BEST_STEPS
    found = [first]
    if with_bound and not beside:
        theirs = _bounds_of(with_bound, series, bounds)
        second = figures.curves(
            with_bound, name=f"{slug}guarantee", measure=theirs[0].measure, bounds=theirs
        )
        if "eta" in searched(series) and theirs[0].measure == measure:
            second.title += ", at the theory's step"
        second.notes += notes_on(with_bound, theirs)
        found.append(second)
    first.notes += notes_on(chosen, of_chosen) if beside else []
    if not with_bound:
        first.notes += [f"No bound is drawn: {reason}." for reason in reasons]
    return found


def _others(
    series: Sequence[Configuration], chosen: Sequence[Configuration], slug: str
) -> Iterator[tuple[str, Callable[[], list[Drawing]]]]:
    """The further figures that the series have values for, each with its name."""
    if len(series) > 1:
        yield "price", lambda: [best_so_far(series, name=f"{slug}price")]
    if all(figures.SECONDS in one.points for one in chosen):
        against = figures.SECONDS
        yield "time", lambda: [figures.curves(chosen, name=f"{slug}time", against=against)]
    if len({one.q for one in chosen if one.q}) > 1:
        yield "final", lambda: [figures.final(chosen, name=f"{slug}final")]
    if "eta" in searched(series):
        if any(one.q and one.eta is not None for one in series):
            yield "best-step", lambda: [figures.best_steps(series, name=f"{slug}best-step")]
        yield "loss-by-step", lambda: [figures.losses_by_step(series, name=f"{slug}loss-by-step")]
        if len({one.q for one in series if one.q}) > 1:
            yield "heat-map", lambda: [heat_map(series, name=f"{slug}heat-map")]


def curves_alone(
    series: Sequence[Configuration],
    chosen: Sequence[Configuration],
    slug: str,
    attempt: Making = plainly,
) -> list[Drawing]:
    """Only the curves, for one of many problem instances."""
    return attempt("the curves", lambda: [_alone(series, chosen, slug)])


def _alone(series: Sequence[Configuration], chosen: Sequence[Configuration], slug: str) -> Drawing:
    drawing = figures.curves(chosen, name=f"{slug}curves")
    if "eta" in searched(series):
        drawing.title += BEST_STEPS
    drawing.notes.append(
        f"Every figure is drawn for the first {MOST_WHOLE} problems of a launch; curves.csv and "
        "table.csv have all of them."
    )
    return drawing


def _of_metrics(
    chosen: Sequence[Configuration], found: Sequence[Drawing], slug: str
) -> list[Drawing]:
    """A figure for each further metric; metrics beyond the maximum are listed in a note."""
    drawn = list(dict.fromkeys(str(name) for one in chosen for name in one.points))
    drawn = [name for name in drawn if is_metric(name)]
    known = {name: [one for one in chosen if name in one.points] for name in drawn}
    drawn = [name for name in drawn if _changes(one.points[name] for one in known[name])]
    if len(drawn) > MOST_METRICS and found:
        left_out = ", ".join(drawn[MOST_METRICS:])
        found[0].notes.append(f"Recorded and not drawn, but in curves.csv: {left_out}.")
    return [
        figures.curves(known[name], name=f"{slug}metric-{_file_name(name)}", measure=name)
        for name in drawn[:MOST_METRICS]
    ]


def _changes(columns: Iterable[pd.Series]) -> bool:
    return len({value for column in columns for value in column.dropna()}) > 1


def _file_name(name: str) -> str:
    return re.sub(r"[^-.\w]", "-", name)


def _bounds_of(
    some: Sequence[Configuration], series: Sequence[Configuration], bounds: dict[int, Bound]
) -> dict[int, Bound]:
    """Bounds by the index among some of the series."""
    known = {id(series[at]): bound for at, bound in bounds.items()}
    return {at: known[id(one)] for at, one in enumerate(some) if id(one) in known}
