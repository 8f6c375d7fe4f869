"""Points of a curve into a store: by MLflow's own calls, or as plain rows of its database.

MLflow makes several objects of every value, and writes about five thousand a second. Where the
store is a SQLite file of this machine, the points between the first and the last of a stretch are
inserted as rows. The first goes by MLflow's call, which checks the run and the names of the
metrics; the last too, which makes it the latest value. Rows that are there already are left as they
are, so that what was interrupted can be sent again.
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
"""The most metrics that a call may carry."""
STRETCH = 4
"""Points from which on plain rows are worth it."""
COLUMNS = {"run_uuid", "key", "value", "timestamp", "step", "is_nan"}
"""Of the table of metrics, as far as we know it; one that differs is left to MLflow."""


def send_points(
    client: MlflowClient, run_id: str, points: Sequence[Point], start: int
) -> Iterator[list[Point]]:
    """Send points in the order of their steps; yields those that the store has taken.

    Args:
        client: of the store.
        run_id: of a run that is there.
        points: steps and values, each step after the last one that the store has.
        start: of the run in milliseconds; the time of a point follows from it and its step.
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
    """Points in groups of at most 1000 values; a step is never cut in two."""
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
    """The store of a client, if it is a SQLite file whose metrics we know how to write."""
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
