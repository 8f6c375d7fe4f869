"""The part of a report on trials that are compared by a metric of the user's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from zotune.core.settings import label
from zotune.reporting.axes import name_axes, scale
from zotune.reporting.drawing import MARKERS, OKABE_ITO, Drawing, Mark, number, panels, styled
from zotune.reporting.page import Table
from zotune.results.configurations import Configuration, measure_of, searched
from zotune.results.trial import is_metric

OWN = ("loss", "gap", "best_loss")
"""Metrics of zotune's that its own report compares."""
MOST = len(OKABE_ITO)
"""Maximum number of curves in a figure."""
MOST_ROWS = 40
"""Maximum number of rows of the table; table.csv has all."""
MOST_METRICS = 6
"""Maximum number of further metrics that are drawn."""


def are_others(series: Sequence[Configuration]) -> bool:
    """Whether these are not compared by estimator and q: trials of others, or by their metric."""
    return any(
        one.aim.is_max or one.aim.metric not in OWN or "estimator" not in one.config
        for one in series
    )


def in_order(series: Sequence[Configuration]) -> list[Configuration]:
    """The configurations, the best first."""
    return sorted(series, key=attrgetter("rank"))


def name_of(one: Configuration, keys: Sequence[str]) -> str:
    """What tells a configuration from the others; its trial's name if nothing does."""
    told = {key.rpartition(".")[2]: one.settings[key] for key in keys if key in one.settings}
    return label(told) or ", ".join(one.names)


def findings_on_others(series: Sequence[Configuration]) -> Iterator[str]:
    """One sentence: the best configuration, and how far behind the worst one is."""
    ordered, keys, aim = in_order(series), searched(series), series[0].aim
    first, last = ordered[0], ordered[-1]
    measure = measure_of(series)
    best, worst = ("highest", "lowest") if aim.is_max else ("lowest", "highest")
    said = f"{best} final {measure}, {_value(first, measure)}, of {name_of(first, keys)}"
    if len(ordered) > 1:
        said += f"; {worst}, {_value(last, measure)}, of {name_of(last, keys)}"
    yield f"{said[0].upper()}{said[1:]}."


def table_of_others(series: Sequence[Configuration]) -> Table:
    """The configurations with what was searched and their final values, the best first."""
    keys, measure = searched(series), measure_of(series)
    ordered = in_order(series)
    further = [n for n in dict.fromkeys(n for one in series for n in one.metrics) if n != measure]
    columns = [*(keys or ["trial"]), f"final {measure}", *further, "spent", "state", ""]
    rows = []
    for at, one in enumerate(ordered[:MOST_ROWS]):
        which = [_word(one.settings.get(key)) for key in keys] or [", ".join(one.names)]
        more = [_word(one.metrics.get(name)) for name in further]
        mark = "best" if at == 0 else ""
        rows.append([*which, _value(one, measure), *more, f"{one.spent:,}", one.status, mark])
    left = len(ordered) - len(rows)
    note = f"{left} more are in table.csv." if left else ""
    return Table(f"Trials by {measure}, best first", columns, rows, note)


def drawings_of_others(series: Sequence[Configuration], slug: str = "") -> list[Drawing]:
    """The curves of the best, by what decides and by further metrics."""
    ordered, measure = in_order(series), measure_of(series)
    chosen, keys = ordered[:MOST], searched(series)
    known = dict.fromkeys(str(name) for one in chosen for name in one.points)
    further = [name for name in known if is_metric(name) and name != measure]
    first = _curves(chosen, keys, measure, f"{slug}curves")
    if len(chosen) < len(ordered):
        first.notes.append(
            f"The {len(chosen)} best of {len(ordered)} curves are drawn; curves.csv has all."
        )
    if len(further) > MOST_METRICS:
        left_out = ", ".join(further[MOST_METRICS:])
        first.notes.append(f"Recorded and not drawn, but in curves.csv: {left_out}.")
    return [first, *_of_metrics(chosen, keys, further[:MOST_METRICS], slug)]


def _of_metrics(
    chosen: Sequence[Configuration], keys: Sequence[str], names: Sequence[str], slug: str
) -> Iterator[Drawing]:
    """A figure for each metric that changes."""
    for name in names:
        have = [one for one in chosen if name in one.points]
        if len({value for one in have for value in one.points[name].dropna()}) > 1:
            file = re.sub(r"[^-.\w]", "-", name)
            yield _curves(have, keys, name, f"{slug}metric-{file}")


def _curves(some: Sequence[Configuration], keys: Sequence[str], measure: str, name: str) -> Drawing:
    """Curves of a metric, each configuration in its own colour."""
    figure, (axis,) = panels(1)
    drawing = Drawing(name, f"{measure} against the steps that were reported", figure)
    entries = {}
    with styled():
        scale([axis], [one.points[measure] for one in some], linear=True)
        for at, one in enumerate(some):
            points = one.points[["spent", measure]].dropna()
            spent, values = list(points["spent"]), list(points[measure])
            every = max(1, len(spent) // 8)
            style: dict[str, Any] = {
                "color": OKABE_ITO[at],
                "marker": MARKERS[at],
                "markevery": every,
            }
            (line,) = axis.plot(spent, values, label=name_of(one, keys), **style)
            key = f"{at + 1}. {name_of(one, keys)}"
            said = [f"{s:,.0f}: {number(v)}" for s, v in zip(spent, values, strict=True)]
            parts = [drawing.identify(line)]
            drawing.marks.append(Mark(axis, key, spent, values, said, [key], parts))
            entries[key] = line
        name_axes([axis], "steps", measure)
    drawing.add_legend(entries)
    return drawing


def _value(one: Configuration, measure: str) -> str:
    value = one.last(measure)
    return "unknown" if value is None else number(value)


def _word(value: Any) -> str:
    return number(value) if isinstance(value, float) else "" if value is None else str(value)
