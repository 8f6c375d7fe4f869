"""The prepared comparison page: curves against queries, final losses, what was searched.

MLflow's page takes its charts from a tag of the experiment, which its own *share* button writes;
the format is not documented, so a test opens the page in a browser.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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

    @property
    def final(self) -> str:
        """The metric of the bars."""
        return f"final_{self.curves[0]}" if self.curves else ""

    @property
    def notice(self) -> str:
        """How many runs are hidden, why, and how to see them; empty where none is."""
        many = sum(len(runs) for runs in self.launches.values())
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


PALETTES = {
    "avg": ((253, 190, 110), (150, 30, 20)),
    "align": ((130, 190, 230), (10, 40, 110)),
    "align-diag": ((150, 215, 140), (0, 80, 40)),
}
OTHERS = ((200, 170, 220), (80, 20, 110))


def colour(params: Mapping[str, str]) -> str | None:
    """A family of colours an estimator, the darker the larger q; None for what is not ours.

    >>> colour({"estimator": "align", "q": "1"}), colour({"estimator": "align", "q": "1000"})
    ('#82bee6', '#0a286e')
    """
    q = _number(params.get("q", ""))
    if "estimator" not in params or not 1 <= q < math.inf:
        return None
    light, dark = PALETTES.get(params["estimator"], OTHERS)
    share = min(1.0, math.log10(q) / 3)
    mixed = (round(a + (b - a) * share) for a, b in zip(light, dark, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


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
    runs = [
        run for run in trial_runs(client, experiments) if run.data.tags.get(LAUNCH_TAG) in wanted
    ]
    name = " ".join([*wanted, *(["all"] if shows_all else [])])
    key = "zotune-" + hashlib.sha256(name.encode()).hexdigest()[:12]
    contents = contents_of(runs, [] if shows_all else runs_above_start(client, runs))
    state = json.dumps(view_state(contents))
    if len(state) > LONGEST:
        raise ConfigError(f"{len(runs)} runs are too many for one page; choose fewer launches")
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


def trial_runs(client: MlflowClient, experiments: Sequence[str]) -> list[Run]:
    """All runs of trials, the newest first."""
    found: list[Run] = []
    token: str | None = None
    while True:
        page = client.search_runs(
            list(experiments), f"tags.`{KIND}` = 'trial'", max_results=1000, page_token=token
        )
        found.extend(page)
        token = page.token or None
        if token is None:
            return found
