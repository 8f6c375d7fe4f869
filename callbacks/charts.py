"""The JSON state of MLflow's prepared page: columns, groups, and charts in sections.

The format is that of MLflow's own *share* button. It is not documented, so a test opens the page in
a browser.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from zotune.callbacks.hiding import hiding_notice
from zotune.core.aim import Aim
from zotune.core.clock import SECONDS
from zotune.core.names import (
    FINAL,
    GROUP_TAG,
    KIND_TAG,
    LAUNCH_GROUP_TAG,
    LAUNCH_TAG,
    LOG10_ETA,
    OF_TRIAL,
    STATUS_TAG,
)
from zotune.core.ranking import LOSS
from zotune.core.spending import Spending

MANY = 100
"""Maximum number of runs in a chart."""
ETA, LOG_ETA = "eta", f"{FINAL}{LOG10_ETA}"
"""The step of a run, and its logarithm: MLflow's parallel coordinates are linear."""
NOTHING = Spending(0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Contents:
    """The contents of a page."""

    curves: list[str]
    """Metrics that have a curve, most important first."""
    positive: set[str]
    """Those of them with positive values only, for logarithmic axes."""
    searched: list[str]
    """Params in which the runs differ, estimator and q first."""
    end: int
    """The end of the axis: the largest budget."""
    launches: dict[str, list[str]]
    """Ids of the runs, by launch."""
    spending: Spending = NOTHING
    """Total spending of all runs."""
    hidden: tuple[str, ...] = ()
    """Ids of hidden runs, which end above their start and would distort the axes."""
    best: tuple[str, ...] = ()
    """Ids of the runs that are shown if there are too many; empty if all are shown."""
    named_groups: bool = False
    """Whether every run has the tag that names its group."""
    log_eta: bool = False
    """Whether every run that is shown has the logarithm of its step."""
    timed: bool = False
    """Whether points have the wall time of their trial."""
    aim: Aim = LOSS
    """What decides which run is the best."""

    @property
    def averaged(self) -> bool:
        """Whether charts show means of groups, which MLflow does not support over other metrics."""
        return "replicate" in self.searched

    @property
    def final(self) -> str:
        """The metric of the bars."""
        return f"{FINAL}{self.curves[0]}" if self.curves else ""

    @property
    def order(self) -> dict[str, Any]:
        """The order of the runs: the best first; the newest first if no run has what decides."""
        deciding = {self.aim.metric, *(["gap"] if self.aim == LOSS else [])}
        if self.curves and self.curves[0] in deciding:
            return {"orderByKey": f"metrics.`{self.final}`", "orderByAsc": not self.aim.is_max}
        return {"orderByKey": "attributes.start_time", "orderByAsc": False}

    @property
    def notice(self) -> str:
        """How many runs are hidden, why, and how to show them; empty if none is hidden."""
        if self.best:
            return f"the best {len(self.best)} of {self.many} runs; zotune ui --all shows all"
        return hiding_notice(len(self.hidden), self.many)

    @property
    def many(self) -> int:
        """The number of runs, including hidden ones."""
        return sum(len(runs) for runs in self.launches.values())

    @property
    def heading(self) -> str:
        """The same in a few words with the spending, because MLflow truncates section names."""
        said = []
        if self.best:
            said.append(f"best {len(self.best)} of {self.many} runs")
        elif self.hidden:
            said.append(f"{len(self.hidden)} of {self.many} runs hidden")
        if self.spending.charged:
            said.append(f"{self.spending.charged:,} {self.spending.count or 'steps'} spent")
        return f"Curves ({'; '.join(said)})" if said else "Curves"


def view_state(contents: Contents) -> dict[str, Any]:
    """The state of a prepared page."""
    curves = _section("Curves", columns=min(2, len(contents.curves)), height=400)
    curves["name"] = contents.heading
    bars = _section("Final values", columns=1)
    time = _section("Wall time", columns=1)
    space = _section("Search space", columns=1)
    charts = [_line(key, contents, curves["uuid"]) for key in contents.curves]
    alone = bool(contents.final) and not contents.averaged  # averages have no times or settings
    over_time = alone and contents.timed
    if over_time:
        charts.append(_line(contents.curves[0], contents, time["uuid"], against=SECONDS))
    if contents.final:
        charts.append(_bar(contents.final, bars["uuid"]))
    if alone:
        charts.append(_parallel(contents, space["uuid"]))
    return {
        "searchFilter": run_filter(contents),
        **contents.order,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": [
            *(f"params.`{key}`" for key in contents.searched),
            f"metrics.`{contents.final}`",
            f"tags.`{STATUS_TAG}`",
            *([f"tags.`{LAUNCH_TAG}`"] if len(contents.launches) > 1 else []),
        ],
        "runsHiddenMode": "SHOW_ALL",
        "groupBy": _groups(contents),
        "useGroupedValuesInCharts": contents.averaged,
        "hideEmptyCharts": True,
        "isAccordionReordered": True,
        "compareRunSections": [
            *(curves, bars, *([time] if over_time else []), *([space] if alone else [])),
            _section("Model metrics", shown=False),
        ],
        "compareRunCharts": charts,
    }


def run_filter(contents: Contents) -> str:
    """The search for the trials of one launch, including later ones; for several, lists run ids."""
    launches, hidden = contents.launches, contents.hidden
    if contents.best:
        return f"attributes.run_id IN ({_quoted(contents.best)})"
    if len(launches) == 1:
        chosen = launch_filter(next(iter(launches)))
        return f"{chosen} AND attributes.run_id NOT IN ({_quoted(hidden)})" if hidden else chosen
    shown = [run_id for runs in launches.values() for run_id in runs if run_id not in hidden]
    return f"attributes.run_id IN ({_quoted(shown)})"


def launch_filter(launch: str) -> str:
    """The search that finds the trials of a launch."""
    return f"tags.`{KIND_TAG}` = '{OF_TRIAL}' AND tags.`{LAUNCH_TAG}` = '{launch}'"


def _quoted(ids: Iterable[str]) -> str:
    return ", ".join(f"'{run_id}'" for run_id in ids)


def _groups(contents: Contents) -> dict[str, Any] | None:
    """Group replicates by the group's name, or by estimator and q if runs have none; and by launch.

    MLflow orders groups by their means, so that the best run would not be first: other runs are in
    no groups.
    """
    if not contents.averaged:
        return None
    several = len(contents.launches) > 1
    if contents.named_groups:  # by one key, whose value alone is then shown
        by = [{"mode": "tag", "groupByData": LAUNCH_GROUP_TAG if several else GROUP_TAG}]
    else:
        keys = [key for key in ("estimator", "q") if key in contents.searched]
        by = [{"mode": "param", "groupByData": key} for key in keys]
        by += [{"mode": "tag", "groupByData": LAUNCH_TAG}] if several else []
    return {"aggregateFunction": "average", "groupByKeys": by} if by else None


def _section(
    name: str, *, shown: bool = True, columns: int = 3, height: int = 360
) -> dict[str, Any]:
    return {
        "uuid": f"zotune-{name.lower().replace(' ', '-')}",
        "name": name,
        "display": shown,
        "isReordered": True,
        "deleted": False,
        "isGenerated": False,
        "columns": max(1, columns),
        "cardHeight": height,
    }


def _card(kind: str, name: str, section: str, **content: Any) -> dict[str, Any]:
    return {
        "uuid": f"{section}-{kind.lower()}-{name}",
        "type": kind,
        "metricSectionId": section,
        "deleted": False,
        "isGenerated": False,
        "runsCountToCompare": MANY,
        **content,
    }


def _line(key: str, contents: Contents, section: str, against: str | None = None) -> dict[str, Any]:
    """A curve over the spent budget, or over another metric."""
    over_budget = {"xAxisKey": "step", "range": {"xMin": 0, "xMax": contents.end}}
    return _card(
        "LINE",
        key,
        section,
        displayName=f"{key} against {against or 'spent budget'}",
        metricKey=key,
        selectedMetricKeys=[key],
        scaleType="log" if key in contents.positive else "linear",
        xAxisScaleType="linear",
        selectedXAxisMetricKey=against or "",
        yAxisKey="metric",
        yAxisExpressions=[],
        lineSmoothness=0,
        useGlobalXaxisKey=False,
        useGlobalLineSmoothing=False,
        ignoreOutliers=False,
        **(over_budget if against is None else {"xAxisKey": "metric"}),
    )


def _bar(key: str, section: str) -> dict[str, Any]:
    return _card("BAR", key, section, metricKey=key, displayName=key)


def _parallel(contents: Contents, section: str) -> dict[str, Any]:
    logarithmic = contents.log_eta and ETA in contents.searched
    params = [key for key in contents.searched if not (logarithmic and key == ETA)]
    return _card(
        "PARALLEL",
        "searched",
        section,
        displayName="what was searched, and what came of it",
        selectedParams=params,
        selectedMetrics=[*([LOG_ETA] if logarithmic else []), contents.final],
        showAllRuns=True,
    )
