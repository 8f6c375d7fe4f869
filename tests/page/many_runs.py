"""A store with many runs of one launch, written to its tables: a study of hours in seconds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlflow.store.tracking.dbmodels.models import (
    SqlLatestMetric,
    SqlMetric,
    SqlParam,
    SqlRun,
    SqlTag,
)
from sqlalchemy import insert

from zotune.callbacks.stores import open_client

LAUNCH, BUDGET, POINTS = "20260102-030405-abcd", 4000, 100
START = 1_767_323_045_000
"""When the launch began, in milliseconds."""
AXES: dict[str, list[Any]] = {
    "estimator": ["avg", "align"],
    "q": [1, 2, 5, 10, 20],
    "eta": [10 ** (-3 + at / 25) for at in range(100)],
}


def fill(uri: str, study: str, folder: Path) -> int:
    """Write a run for every point of the axes, with curves that fall at rates of their own."""
    client = open_client(uri)
    experiment = client.create_experiment(study, folder.as_uri())
    tables: dict[Any, list[dict[str, Any]]] = {
        table: [] for table in (SqlRun, SqlTag, SqlParam, SqlMetric, SqlLatestMetric)
    }
    points = [dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values())]
    for at, point in enumerate(points):
        for table, row in _rows(at, point, int(experiment), folder):
            tables[table].append(row)
    store: Any = client._tracking_client.store
    with store.ManagedSessionMaker() as session:
        for table, rows in tables.items():
            session.execute(insert(table), rows)
    return len(points)


def _rows(
    at: int, point: dict[str, Any], experiment: int, folder: Path
) -> Iterator[tuple[Any, dict[str, Any]]]:
    run, start = f"{at:032x}", START + at
    name = f"{point['estimator']} q={point['q']} eta={point['eta']:.4g}"
    yield (
        SqlRun,
        {
            "run_uuid": run,
            "name": name,
            "source_type": "LOCAL",
            "user_id": "",
            "status": "FINISHED",
            "start_time": start,
            "end_time": start + BUDGET,
            "lifecycle_stage": "active",
            "artifact_uri": f"{folder.as_uri()}/{run}/artifacts",
            "experiment_id": experiment,
        },
    )
    group = f"{point['estimator']} q={point['q']}"
    tags = {"zotune.kind": "trial", "zotune.launch_id": LAUNCH, "zotune.trial_id": f"t{at}"}
    tags |= {"zotune.status": "exhausted", "zotune.group": group, "mlflow.runName": name}
    for key, value in tags.items():
        yield SqlTag, {"run_uuid": run, "key": key, "value": value}
    fixed = {"problem.name": "quadratic", "problem.dim": 50, "budget": BUDGET, "replicates": 1}
    fixed |= {"count": "directions", "step": "constant", "update": "sgd"}
    for key, setting in {**fixed, **point}.items():
        yield SqlParam, {"run_uuid": run, "key": key, "value": str(setting)}
    yield from _metrics(run, start, point)


def _metrics(run: str, start: int, point: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    rate = 5e-3 / (1 + abs(math.log10(point["eta"]) + 1)) / (1 + 0.1 * math.log(point["q"]))
    steps = [BUDGET * at // POINTS for at in range(POINTS + 1)]
    curve = [(step, 100 * math.exp(-rate * step)) for step in steps]
    for key in ("loss", "gap"):
        for step, value in curve:
            yield SqlMetric, _metric(run, key, start, step, value)
        yield SqlLatestMetric, _metric(run, key, start, *curve[-1])
        for table in (SqlMetric, SqlLatestMetric):
            yield table, _metric(run, f"final_{key}", start, *curve[-1])
    for table in (SqlMetric, SqlLatestMetric):
        yield table, _metric(run, "final_log10_eta", start, BUDGET, math.log10(point["eta"]))


def _metric(run: str, key: str, start: int, step: int, value: float) -> dict[str, Any]:
    at = {"timestamp": start + step, "step": step, "value": value, "is_nan": False}
    return {"run_uuid": run, "key": key, **at}
