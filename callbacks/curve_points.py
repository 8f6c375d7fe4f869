"""Send the points of a curve to a store, by MLflow's API or as plain rows of its database.

MLflow creates several objects for every value, and writes about five thousand per second. If the
store is a SQLite file on this machine, all points of a batch except the first and the last are
inserted as rows. The first is sent by MLflow's API, which checks the run and the names of metrics,
and so is the last, which sets the latest value. Existing rows are not changed, so that an
interrupted batch can be sent again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from zotune.callbacks.records import Point

if TYPE_CHECKING:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from mlflow.tracking import MlflowClient

BATCH = 1000
"""Maximum number of metrics per call."""
STRETCH = 4
"""Minimum number of points for plain rows."""
COLUMNS = {"run_uuid", "key", "value", "timestamp", "step", "is_nan"}
"""Expected columns of the table of metrics; if they differ, MLflow's API is used."""


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
