"""The prepared comparison page in MLflow: curves, final losses, searched settings.

MLflow's page reads its charts from a tag of the experiment. If a store rejects the tag, MLflow's
own page of the launch is used instead.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from zotune.callbacks.charts import LOG_ETA, MANY, Contents, launch_filter, view_state
from zotune.callbacks.colours import COLOUR, number, shades
from zotune.callbacks.hiding import runs_above_start
from zotune.callbacks.launches import found_runs
from zotune.callbacks.stores import without_credentials
from zotune.core.aim import Aim
from zotune.core.clock import SECONDS
from zotune.core.names import FINAL, GROUP_TAG, KIND_TAG, LAUNCH_TAG, OF_TRIAL, ROW_KEYS, STATUS_TAG
from zotune.core.ranking import LOSS, rank
from zotune.core.spending import Spending
from zotune.errors import ConfigError

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

SHARED = "mlflow.sharedViewState."
CURVES = ("gap", "loss", "accuracy", "train_loss", "grad_norm2", "average_loss")
"""zotune's metrics with a chart, most important first; other charts are collapsed."""
LINEAR = ("accuracy",)
MOST_OF_USERS = 4
"""Maximum number of user metrics with a chart."""
WIDE = 100
"""The axis of such a metric is logarithmic if its final values have at least this ratio."""
SEARCHED_FIRST = ("estimator", "q", "update", "step", "eta", "directions", "difference")
MOST_SHOWN = 50
"""Maximum number of runs that a page shows; if there are more, it shows the best of them."""
LONGEST = 20_000
"""Maximum length of a tag of an experiment."""
TRIED = ((3, 17), (3, 18))
"""The first and the last version of MLflow whose page our tests have opened in a browser."""
VIEW = "compareRunsMode=CHART&workflowType=machine_learning"


@dataclass(frozen=True)
class Page:
    """A prepared page."""

    path: str
    """The path of its address on the server."""
    notice: str
    """The notice about hidden runs; empty if there are none."""
    problem: str = ""
    """Why the page may not be as intended; empty if there is no problem."""


def contents_of(runs: Sequence[Run], hidden: Sequence[str] = ()) -> Contents:
    """The contents of a page from its runs; ``hidden`` are ids of those that it does not show."""
    last = [{m.key: m for m in run.data._metric_objs} for run in runs]
    values = _values(last)
    aim = aim_of(runs)
    curves = _curves(values, aim)
    linear = {
        key
        for key in curves
        if key in LINEAR or (key not in CURVES and max(values[key]) < WIDE * min(values[key]))
    }
    positive = {key for key in curves if min(values[key]) > 0 and key not in linear}
    steps = (m.step for metrics in last for m in metrics.values())
    budgets = (number(run.data.params.get("budget", "")) for run in runs)
    end = max([0, *steps, *(int(b) for b in budgets if math.isfinite(b))])
    launches: defaultdict[str, list[str]] = defaultdict(list)
    for run in runs:
        launches[run.data.tags[LAUNCH_TAG]].append(run.info.run_id)
    return Contents(
        curves,
        positive,
        _searched(runs),
        end,
        dict(launches),
        Spending.of((run.data.params, _last(run)) for run in runs),
        tuple(hidden),
        aim=aim,
        named_groups=bool(runs) and all(GROUP_TAG in run.data.tags for run in runs),
        log_eta=bool(runs) and all(LOG_ETA in metrics for metrics in last),
        timed=bool(runs) and all(SECONDS in metrics for metrics in last),
    )


def aim_of(runs: Iterable[Run]) -> Aim:
    """What decides among runs, by the tags of the newest that has them."""
    told = (Aim.of_tags(run.data.tags) for run in runs)
    return next((aim for aim in told if aim != LOSS), LOSS)


def _values(last: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The last values of each metric over all runs."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for metrics in last:
        for key, metric in metrics.items():
            values[key].append(metric.value)
    return values


def _curves(values: Mapping[str, Sequence[float]], aim: Aim) -> list[str]:
    """The metrics with a chart: the one that decides, zotune's, then some of the user's."""
    own = [key for key in CURVES if any(values.get(key, []))]
    if "gap" in own and aim == LOSS:
        own = [key for key in own if key != aim.metric]
    first = [aim.metric] if aim != LOSS and aim.metric in values else []
    found = list(dict.fromkeys([*first, *own, *_user_metrics(values)]))
    return found[: MOST_OF_USERS + len(own)]


def _user_metrics(known: Iterable[str]) -> list[str]:
    """The user's metrics: neither zotune's nor MLflow's system metrics."""
    system = (FINAL, "system/")
    found = sorted(k for k in known if k not in ROW_KEYS and not k.startswith(system))
    return found[:MOST_OF_USERS]


def _last(run: Run) -> dict[str, float]:
    """The final values of a run: those at its end, else of its last point."""
    metrics, last = run.data.metrics, max((m.step for m in run.data._metric_objs), default=0)
    ends = {key.removeprefix(FINAL): metrics[key] for key in metrics if key.startswith(FINAL)}
    spent = [m.step for m in run.data._metric_objs if m.key.startswith(FINAL)]
    return {**metrics, **ends, "spent": max(spent, default=last)}


def with_best_only(contents: Contents, runs: Sequence[Run]) -> Contents:
    """Limit the page to the best runs, as many of each launch, if there are too many."""
    shown = [run for run in runs if run.info.run_id not in contents.hidden]
    if len(shown) <= MOST_SHOWN:
        return contents
    each = max(1, MOST_SHOWN // len(contents.launches))
    best: list[str] = []
    for theirs in contents.launches.values():
        of_launch = set(theirs)
        mine = [run for run in shown if run.info.run_id in of_launch]
        mine.sort(key=lambda run: _rank_of(run, contents))
        best += [run.info.run_id for run in mine[:each]]
    return replace(contents, best=tuple(best))


def _rank_of(run: Run, contents: Contents) -> tuple[bool, float, float]:
    """The rank of a run by the common rule."""
    value, status = run.data.metrics.get(contents.final), run.data.tags.get(STATUS_TAG, "")
    return rank(status, value, _last(run)["spent"], contents.aim)


def _searched(runs: Sequence[Run]) -> list[str]:
    params = [run.data.params for run in runs]
    keys = sorted({key for one in params for key in one}, key=_rank)
    differ = [key for key in keys if len({one.get(key) for one in params}) > 1]
    always = [key for key in ("estimator", "q") if key in keys]
    return list(dict.fromkeys([*always, *differ]))[:8]


def _rank(key: str) -> tuple[int, str]:
    known = key in SEARCHED_FIRST
    return (SEARCHED_FIRST.index(key) if known else len(SEARCHED_FIRST), key)


def paint(client: MlflowClient, runs: Sequence[Run]) -> None:
    """Set the colours of the runs of a page, unless they are set already."""
    wanted = shades(runs)
    for run in runs[:MANY]:
        told = wanted.get(run.info.run_id)
        if told is not None and run.data.tags.get(COLOUR) != told:
            client.set_tag(run.info.run_id, COLOUR, told)


def prepare_page(
    client: MlflowClient,
    experiments: Sequence[str],
    launches: Iterable[str],
    *,
    shows_all: bool = False,
) -> Page:
    """Prepare the page of some launches.

    Args:
        client: the client of the store.
        experiments: their ids. The page is stored in each, as MLflow reads it from any of them.
        launches: ids of the launches to show.
        shows_all: show runs that would be hidden, too.

    Returns:
        The page; if the store rejects it, MLflow's own page with the reason.
    """
    wanted = sorted(launches)
    runs = [run for launch in wanted for run in trial_runs(client, experiments, launch)]
    name = " ".join([*wanted, *(["all"] if shows_all else [])])
    key = "zotune-" + hashlib.sha256(name.encode()).hexdigest()[:12]
    hides = not shows_all and aim_of(runs) == LOSS
    contents = contents_of(runs, runs_above_start(client, runs) if hides else [])
    contents = contents if shows_all else with_best_only(contents, runs)
    state = json.dumps(view_state(contents))
    if len(state) > LONGEST:
        raise ConfigError(f"{len(runs)} runs are too many for one page; choose fewer launches")
    left_out = {*contents.hidden, *_not_among_best(contents)}
    try:
        paint(client, [run for run in runs if run.info.run_id not in left_out])
        for experiment in experiments:
            client.set_experiment_tag(experiment, SHARED + key, state)
    except Exception as error:
        return plain_page(client, experiments, wanted, error)
    return Page(page_path(experiments, key), contents.notice, _untried(client, experiments, wanted))


def _not_among_best(contents: Contents) -> set[str]:
    every = {run_id for runs in contents.launches.values() for run_id in runs}
    return every - set(contents.best) if contents.best else set()


def plain_page(
    client: MlflowClient, experiments: Sequence[str], launches: Sequence[str], error: Exception
) -> Page:
    """MLflow's own page of the launches, as a fallback; raises if the store does not answer."""
    client.get_experiment(experiments[0])  # raises if the store does not answer
    why = without_credentials(" ".join(f"{type(error).__name__}: {error}".split()))[:200]
    problem = f"the prepared page is refused, so the address is of MLflow's own page ({why})"
    return Page(plain_path(experiments, launches), "", problem)


def _untried(client: MlflowClient, experiments: Sequence[str], launches: Sequence[str]) -> str:
    """A notice if the page was not tested with this version of MLflow; else empty."""
    version = server_version(client)
    parts = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    first, last = TRIED
    if len(parts) < 2 or first <= (parts[0], parts[1]) <= last:
        return ""
    known = " to ".join(f"{major}.{minor}" for major, minor in TRIED)
    plain = plain_path(experiments, launches)
    return (
        f"prepared pages were tried with MLflow {known}, and this is {version}; "
        f"if the page shows no charts, open {plain}"
    )


def server_version(client: MlflowClient) -> str:
    """The version of MLflow that serves the page: the server's, or ours; empty if unknown."""
    import mlflow
    from mlflow.store.tracking.rest_store import RestStore
    from mlflow.utils.rest_utils import http_request

    store = client._tracking_client.store
    if not isinstance(store, RestStore):
        return mlflow.__version__
    try:
        answer = http_request(  # type: ignore[no-untyped-call]
            store.get_host_creds(), "/version", "GET", timeout=5, max_retries=0
        )
    except Exception:  # proxies may reject the request; the version is then unknown
        return ""
    return str(answer.text).strip() if answer.status_code == 200 else ""


def page_path(experiments: Sequence[str], key: str) -> str:
    """The path of a prepared page on the server."""
    return f"{_place(experiments)}viewStateShareKey={key}&{VIEW}"


def plain_path(experiments: Sequence[str], launches: Sequence[str]) -> str:
    """The path of MLflow's own page; for a single launch, with a search for its trials."""
    found = f"searchFilter={quote(launch_filter(launches[0]))}&" if len(launches) == 1 else ""
    return f"{_place(experiments)}{found}{VIEW}"


def _place(experiments: Sequence[str]) -> str:
    if len(experiments) == 1:
        return f"/#/experiments/{experiments[0]}/runs?"
    ids = json.dumps(list(experiments), separators=(",", ":"))
    return f"/#/compare-experiments/s?experiments={quote(ids)}&"


def trial_runs(
    client: MlflowClient, experiments: Sequence[str], launch: str | None = None
) -> list[Run]:
    """All runs of trials, or those of one launch, the newest first."""
    wanted = f"tags.`{KIND_TAG}` = '{OF_TRIAL}'" if launch is None else launch_filter(launch)
    return list(found_runs(client, experiments, wanted))
