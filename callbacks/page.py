"""The prepared comparison page: curves against queries, final losses, what was searched.

MLflow's page takes its charts from a tag of the experiment, which its own *share* button writes;
the format is not documented, so a test opens the page in a browser.
"""

from __future__ import annotations

import colorsys
import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from zotune.callbacks.hiding import hiding_notice, runs_above_start
from zotune.core.names import LAUNCH_TAG
from zotune.core.spending import Spending
from zotune.errors import ConfigError

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

SHARED = "mlflow.sharedViewState."
KIND = "zotune.kind"
COLOUR = "mlflow.runColor"
CURVES = ("gap", "loss", "accuracy", "train_loss", "grad_norm2", "average_loss")
"""Metrics of ours that have a chart, the most wanted first; the others are folded away."""
LINEAR = ("accuracy",)
SEARCHED_FIRST = ("estimator", "q", "eta", "step", "directions", "difference")
MANY = 100
"""Runs that a chart shows."""
MOST_SHOWN = 50
"""Runs of which a page shows all; of more it shows the best so many, which a person can tell apart
and a browser draws in a moment."""
LONGEST = 20_000
"""Characters that a tag of an experiment may have."""


@dataclass(frozen=True)
class Contents:
    """What of the runs a page shows."""

    curves: list[str]
    """Metrics that have a curve, the most wanted first."""
    positive: set[str]
    """Those of them that a logarithmic axis can show."""
    searched: list[str]
    """Params in which the runs differ, estimator and q first."""
    end: int
    """Where the axis ends: the largest budget."""
    launches: dict[str, list[str]]
    """Ids of the runs, by launch."""
    spending: Spending
    """What all runs together have spent."""
    hidden: tuple[str, ...] = ()
    """Ids of runs that end above their start, and would crush the others' charts."""
    best: tuple[str, ...] = ()
    """Ids of the only runs that are shown, where there are too many; empty where all are."""

    @property
    def final(self) -> str:
        """The metric of the bars."""
        return f"final_{self.curves[0]}" if self.curves else ""

    @property
    def notice(self) -> str:
        """How many runs are hidden, why, and how to see them; empty where none is."""
        many = sum(len(runs) for runs in self.launches.values())
        if self.best:
            return f"the best {len(self.best)} of {many} runs; zotune ui --all shows all"
        return hiding_notice(len(self.hidden), many)


@dataclass(frozen=True)
class Page:
    """A page that is prepared."""

    path: str
    """Its address, after that of the server."""
    notice: str
    """What is to be said of hidden runs; empty where there are none."""


def contents_of(runs: Sequence[Run], hidden: Sequence[str] = ()) -> Contents:
    """Look through the runs of a page; ``hidden`` are ids of those that it does not show."""
    last = [{m.key: m for m in run.data._metric_objs} for run in runs]
    known = {key for metrics in last for key in metrics}
    values = {key: [m[key].value for m in last if key in m] for key in known}
    curves = [key for key in CURVES if any(values.get(key, []))]
    if "gap" in curves:
        curves = [key for key in curves if key != "loss"]
    if not curves:
        curves = sorted(key for key in known if not key.startswith("final_"))[:4]
    positive = {key for key in curves if min(values[key]) > 0 and key not in LINEAR}
    steps = (m.step for metrics in last for m in metrics.values())
    budgets = (_number(run.data.params.get("budget", "")) for run in runs)
    end = max([0, *steps, *(int(b) for b in budgets if math.isfinite(b))])
    launches: defaultdict[str, list[str]] = defaultdict(list)
    for run in runs:
        launches[run.data.tags[LAUNCH_TAG]].append(run.info.run_id)
    spending = Spending.of((run.data.params, _last(run)) for run in runs)
    return Contents(curves, positive, _searched(runs), end, dict(launches), spending, tuple(hidden))


def _last(run: Run) -> dict[str, float]:
    """The last values of a run: those of its end, else of its last point."""
    metrics, last = run.data.metrics, max((m.step for m in run.data._metric_objs), default=0)
    ends = {key.removeprefix("final_"): metrics[key] for key in metrics if key.startswith("final_")}
    spent = [m.step for m in run.data._metric_objs if m.key.startswith("final_")]
    return {**metrics, **ends, "spent": max(spent, default=last)}


def with_best_only(contents: Contents, runs: Sequence[Run]) -> Contents:
    """The page of the best runs alone where there are too many: of each launch as many."""
    shown = [run for run in runs if run.info.run_id not in contents.hidden]
    if len(shown) <= MOST_SHOWN:
        return contents
    each = max(1, MOST_SHOWN // len(contents.launches))
    best: list[str] = []
    for theirs in contents.launches.values():
        of_launch = set(theirs)
        mine = [run for run in shown if run.info.run_id in of_launch]
        mine.sort(key=lambda run: run.data.metrics.get(contents.final, math.inf))
        best += [run.info.run_id for run in mine[:each]]
    return replace(contents, best=tuple(best))


def _number(text: str) -> float:
    """The number that a param says, NaN for what is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _searched(runs: Sequence[Run]) -> list[str]:
    params = [run.data.params for run in runs]
    keys = sorted({key for one in params for key in one}, key=_rank)
    differ = [key for key in keys if len({one.get(key) for one in params}) > 1]
    always = [key for key in ("estimator", "q") if key in keys]
    return list(dict.fromkeys([*always, *differ]))[:8]


def _rank(key: str) -> tuple[int, str]:
    known = key in SEARCHED_FIRST
    return (SEARCHED_FIRST.index(key) if known else len(SEARCHED_FIRST), key)


HUES = {"avg": (55, 0), "align": (175, 255), "align-diag": (80, 150)}
OTHERS = (335, 275)
"""Degrees on the colour wheel at q = 1 and at q = 1000 and beyond, by estimator."""
LIGHTNESS, ALONE = (0.68, 0.28), 0.45
"""Of the smallest and the largest step of a launch, and where there is only one."""


def colour(params: Mapping[str, str], shade: float | None = None) -> str | None:
    """A family of hues an estimator, one of them a q, the darker the larger the step.

    Args:
        params: of a run; None is returned for those that are not ours.
        shade: the rank of the run's step among those of its page, from 0 to 1.

    >>> colour({"estimator": "align", "q": "1"}), colour({"estimator": "align", "q": "1000"})
    ('#22c3b6', '#4b22c3')
    """
    q = _number(params.get("q", ""))
    if "estimator" not in params or not 1 <= q < math.inf:
        return None
    first, last = HUES.get(params["estimator"], OTHERS)
    hue = first + (last - first) * min(1.0, math.log10(q) / 3)
    light = ALONE if shade is None else LIGHTNESS[0] + (LIGHTNESS[1] - LIGHTNESS[0]) * shade
    parts = colorsys.hls_to_rgb(hue / 360, light, 0.7)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def shades(runs: Sequence[Run]) -> dict[str, str]:
    """The colour of each run that has one, its step ranked among those of all."""
    steps = {run.info.run_id: _number(run.data.params.get("eta", "")) for run in runs}
    known = sorted({step for step in steps.values() if math.isfinite(step)})
    ranks = {step: at / (len(known) - 1) for at, step in enumerate(known)} if known[1:] else {}
    found = {r.info.run_id: colour(r.data.params, ranks.get(steps[r.info.run_id])) for r in runs}
    return {run_id: told for run_id, told in found.items() if told is not None}


def paint(client: MlflowClient, runs: Sequence[Run]) -> None:
    """Give the runs of a page their colours; those that have them are left alone."""
    wanted = shades(runs)
    for run in runs[:MANY]:
        told = wanted.get(run.info.run_id)
        if told is not None and run.data.tags.get(COLOUR) != told:
            client.set_tag(run.info.run_id, COLOUR, told)


def view_state(contents: Contents) -> dict[str, Any]:
    """What MLflow's page reads: columns, groups, and charts in sections."""
    curves, bars, space = _section("Curves"), _section("Final values"), _section("Search space")
    notices = [f"spent {contents.spending}"] if contents.spending.charged else []
    if notices := [*notices, *filter(None, [contents.notice])]:
        curves["name"] += f" ({'; '.join(notices)})"
    charts = [_line(key, contents, curves["uuid"]) for key in contents.curves]
    if contents.final:
        charts.append(_bar(contents.final, bars["uuid"]))
        charts.append(_parallel(contents, space["uuid"]))
    return {
        "searchFilter": _filter(contents),
        "orderByKey": f"metrics.`{contents.final}`",
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": [
            *(f"params.`{key}`" for key in contents.searched),
            f"metrics.`{contents.final}`",
            "tags.`zotune.status`",
        ],
        "runsHiddenMode": "SHOW_ALL",
        "groupBy": _groups(contents),
        "useGroupedValuesInCharts": "replicate" in contents.searched,
        "hideEmptyCharts": True,
        "isAccordionReordered": True,
        "compareRunSections": [curves, bars, space, _section("Model metrics", shown=False)],
        "compareRunCharts": charts,
    }


def _filter(contents: Contents) -> str:
    """The trials of one launch, also those to come; of several, MLflow must be told each run."""
    launches, hidden = contents.launches, contents.hidden
    if contents.best:
        return f"attributes.run_id IN ({_quoted(contents.best)})"
    if len(launches) == 1:
        chosen = f"tags.`{KIND}` = 'trial' AND tags.`{LAUNCH_TAG}` = '{next(iter(launches))}'"
        return f"{chosen} AND attributes.run_id NOT IN ({_quoted(hidden)})" if hidden else chosen
    shown = [run_id for runs in launches.values() for run_id in runs if run_id not in hidden]
    return f"attributes.run_id IN ({_quoted(shown)})"


def _quoted(ids: Iterable[str]) -> str:
    return ", ".join(f"'{run_id}'" for run_id in ids)


def _groups(contents: Contents) -> dict[str, Any] | None:
    """By estimator and q, and by launch where there are several."""
    keys = [key for key in ("estimator", "q") if key in contents.searched]
    by = [{"mode": "param", "groupByData": key} for key in keys]
    if len(contents.launches) > 1:
        by.append({"mode": "tag", "groupByData": LAUNCH_TAG})
    return {"aggregateFunction": "average", "groupByKeys": by} if by else None


def _section(name: str, *, shown: bool = True) -> dict[str, Any]:
    return {
        "uuid": f"zotune-{name.lower().replace(' ', '-')}",
        "name": name,
        "display": shown,
        "isReordered": True,
        "deleted": False,
        "isGenerated": False,
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


def _line(key: str, contents: Contents, section: str) -> dict[str, Any]:
    return _card(
        "LINE",
        key,
        section,
        displayName=f"{key} against spent budget",
        metricKey=key,
        selectedMetricKeys=[key],
        scaleType="log" if key in contents.positive else "linear",
        xAxisKey="step",
        xAxisScaleType="linear",
        selectedXAxisMetricKey="",
        yAxisKey="metric",
        yAxisExpressions=[],
        lineSmoothness=0,
        useGlobalXaxisKey=False,
        useGlobalLineSmoothing=False,
        ignoreOutliers=False,
        range={"xMin": 0, "xMax": contents.end},
    )


def _bar(key: str, section: str) -> dict[str, Any]:
    return _card("BAR", key, section, metricKey=key, displayName=key)


def _parallel(contents: Contents, section: str) -> dict[str, Any]:
    return _card(
        "PARALLEL",
        "searched",
        section,
        displayName="what was searched, and what came of it",
        selectedParams=contents.searched,
        selectedMetrics=[contents.final],
        showAllRuns=True,
    )


def prepare_page(
    client: MlflowClient,
    experiments: Sequence[str],
    launches: Iterable[str],
    *,
    shows_all: bool = False,
) -> Page:
    """Prepare the page of some launches; its place on any server of the store.

    Args:
        client: of the store.
        experiments: their ids. Each keeps the page: MLflow asks the one that it loads first.
        launches: ids of the launches that are shown.
        shows_all: show runs that end above their start, too.
    """
    wanted = sorted(launches)
    runs = [run for launch in wanted for run in trial_runs(client, experiments, launch)]
    name = " ".join([*wanted, *(["all"] if shows_all else [])])
    key = "zotune-" + hashlib.sha256(name.encode()).hexdigest()[:12]
    contents = contents_of(runs, [] if shows_all else runs_above_start(client, runs))
    contents = contents if shows_all else with_best_only(contents, runs)
    state = json.dumps(view_state(contents))
    if len(state) > LONGEST:
        raise ConfigError(f"{len(runs)} runs are too many for one page; choose fewer launches")
    paint(client, runs)
    for experiment in experiments:
        client.set_experiment_tag(experiment, SHARED + key, state)
    return Page(page_path(experiments, key), contents.notice)


def page_path(experiments: Sequence[str], key: str) -> str:
    """The address of a prepared page, after that of the server."""
    if len(experiments) == 1:
        place = f"experiments/{experiments[0]}/runs?"
    else:
        ids = json.dumps(list(experiments), separators=(",", ":"))
        place = f"compare-experiments/s?experiments={quote(ids)}&"
    return f"/#/{place}viewStateShareKey={key}&compareRunsMode=CHART&workflowType=machine_learning"


def trial_runs(
    client: MlflowClient, experiments: Sequence[str], launch: str | None = None
) -> list[Run]:
    """All runs of trials, or those of one launch, the newest first."""
    wanted = f"tags.`{KIND}` = 'trial'"
    wanted += f" AND tags.`{LAUNCH_TAG}` = '{launch}'" if launch is not None else ""
    found: list[Run] = []
    token: str | None = None
    while True:
        page = client.search_runs(list(experiments), wanted, max_results=1000, page_token=token)
        found.extend(page)
        token = page.token or None
        if token is None:
            return found
