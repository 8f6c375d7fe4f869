"""Send the points of a curve to a store, by MLflow's API or as plain rows of its database.

MLflow creates several objects for every value, and writes about five thousand per second. If the
store is a SQLite file on this machine, all points of a batch except the first and the last are
inserted as rows. The first is sent by MLflow's API, which checks the run and the names of metrics,
and so is the last, which sets the latest value. Existing rows are not changed, so that an
interrupted batch can be sent again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from zotune.callbacks.records import Point
from zotune.core.grid import GRID_POINTS

if TYPE_CHECKING:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from mlflow.tracking import MlflowClient

BATCH = 1000
"""Maximum number of metrics per call."""
COUNTERS = frozenset(["queries", "evaluations", "monitored", "steps", "q", "diverged"])
"""Metrics of which a store of many trials keeps the final values only."""
POINTS = 24_000
"""Number of points of all curves of a launch above which each keeps fewer by default."""
STRETCH = 4
"""Minimum number of points for plain rows."""
COLUMNS = {"run_uuid", "key", "value", "timestamp", "step", "is_nan"}
"""Expected columns of the table of metrics; if they differ, MLflow's API is used."""


def thinned(points: Sequence[Point], fine: Sequence[int], coarse: Iterable[int]) -> list[Point]:
    """The points of a curve that a store of many trials keeps, without their counters.

    They are the last points of the curve's fine grid at or before those of a coarse one, so that
    all curves of a budget keep the same steps, however their points arrive.

    >>> from zotune.core.grid import budget_grid
    >>> points = [(step, {"loss": 1.0, "steps": 2.0}) for step in budget_grid(1000)]
    >>> kept = thinned(points, budget_grid(1000), budget_grid(1000, 5))
    >>> [step for step, _ in kept], kept[0][1]
    ([0, 250, 498, 749, 1000], {'loss': 1.0})
    """
    steps = {fine[bisect_right(fine, step) - 1] for step in coarse}
    return [
        (step, {key: value for key, value in values.items() if key not in COUNTERS})
        for step, values in points
        if step in steps
    ]


def points_for(trials: int | None) -> int:
    """The default number of points of a curve: halved, once or more, if there are many trials.

    One out of 40 is kept at least, so that the first is at 2.5 % of the budget.

    >>> points_for(50), points_for(100), points_for(300), points_for(5000), points_for(None)
    (320, 161, 81, 41, 161)
    """
    for parts in (320, 160, 80):
        if (trials or 100) * parts <= POINTS:
            return min(parts + 1, GRID_POINTS)
    return 41


def send_points(
    client: MlflowClient, run_id: str, points: Sequence[Point], start: int
) -> Iterator[list[Point]]:
    """Send points in the order of their steps; yields those that the store has accepted.

    Args:
        client: the client of the store.
        run_id: id of an existing run.
        points: steps and values, each step after the last one in the store.
        start: start of the run in milliseconds, from which times of points are derived.
    """
    store = database_with_rows(client)
    if store is None:
        for batch in batches(points):
            client.log_batch(run_id, metrics=_metrics(batch, start))
            yield batch
        return
    for _, same in groupby(points, key=lambda point: tuple(point[1])):
        stretch = list(same)
        first, between, last = stretch[:1], stretch[1:-1], stretch[1:][-1:]
        if len(stretch) < STRETCH:
            first, between, last = stretch, [], []
        for batch in batches(first):
            client.log_batch(run_id, metrics=_metrics(batch, start))
            yield batch
        if between:
            _insert(store, run_id, between, start)
            client.log_batch(run_id, metrics=_metrics(last, start)[:BATCH])
            yield [*between, *last]


def batches(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Points in batches of at most 1000 values; a step is never split."""
    batch: list[Point] = []
    size = 0
    for step, values in points:
        kept = dict(list(values.items())[:BATCH])
        if size + len(kept) > BATCH:
            yield batch
            batch, size = [], 0
        batch.append((step, kept))
        size += len(kept)
    if batch:
        yield batch


def database_with_rows(client: MlflowClient) -> SqlAlchemyStore | None:
    """The store of a client if it is a SQLite file with the expected columns; else None."""
    from mlflow.store.tracking.dbmodels.models import SqlMetric
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = client._tracking_client.store
    if not isinstance(store, SqlAlchemyStore) or store.db_type != "sqlite":
        return None
    table: Any = SqlMetric.__table__
    return store if {column.name for column in table.columns} == COLUMNS else None


def _insert(store: SqlAlchemyStore, run_id: str, points: Sequence[Point], start: int) -> None:
    from mlflow.store.tracking.dbmodels.models import SqlMetric
    from sqlalchemy import insert

    rows = []
    for step, values in points:
        for key, value in list(values.items())[:BATCH]:
            is_nan, kept = store.sanitize_metric_value(value)
            row = {"run_uuid": run_id, "key": key, "value": kept, "is_nan": is_nan}
            rows.append(row | {"timestamp": start + step, "step": step})
    with store.ManagedSessionMaker() as session:
        session.execute(insert(SqlMetric.__table__).prefix_with("OR IGNORE"), rows)


def _metrics(points: Sequence[Point], start: int) -> list[Any]:
    from mlflow.entities import Metric

    return [Metric(k, v, start + step, step) for step, values in points for k, v in values.items()]
