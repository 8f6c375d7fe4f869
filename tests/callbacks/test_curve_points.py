"""Points as plain rows: a SQLite store holds what MLflow's own calls would have written."""

from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy import create_engine, text

from zotune.callbacks import curve_points
from zotune.callbacks.curve_points import database_with_rows, send_points
from zotune.callbacks.records import Point
from zotune.callbacks.stores import open_client
from zotune.results.store import histories

START = 1_700_000_000_000
VALUES = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([nan, inf, -inf, 0.0, -0.0]))
MIXED = st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1)
ALIKE = st.fixed_dictionaries({"a": VALUES, "b": VALUES})
POINTS = st.one_of(
    st.dictionaries(st.integers(0, 10_000), MIXED, max_size=12),
    st.dictionaries(st.integers(0, 10_000), ALIKE, min_size=5, max_size=12),
).map(lambda found: sorted(found.items()))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[MlflowClient, Path]:
    file = tmp_path_factory.mktemp("points") / "mlflow.db"
    return open_client(f"sqlite:///{file}"), file


def rows_of(file: Path, run_id: str) -> dict[str, list[Any]]:
    """What the two tables of metrics hold of a run."""
    engine = create_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        found = {
            table: connection.execute(
                text(
                    f"select key, step, timestamp, value, is_nan from {table} "
                    "where run_uuid = :run order by key, step, value"
                ),
                {"run": run_id},
            ).all()
            for table in ("metrics", "latest_metrics")
        }
    engine.dispose()
    return {table: [tuple(row) for row in rows] for table, rows in found.items()}


def sent_by_mlflow(client: MlflowClient, points: list[Point]) -> str:
    run_id = str(client.create_run("0").info.run_id)
    for batch in curve_points.batches(points):
        client.log_batch(run_id, metrics=curve_points._metrics(batch, START))
    return run_id


@example(points=[(step, {"a": value}) for step, value in enumerate([0.0, nan, inf, -inf, 1.0])])
@given(points=POINTS)
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_rows_are_those_of_mlflows_own_calls(
    store: tuple[MlflowClient, Path], points: list[Point]
) -> None:
    client, file = store
    run_id = str(client.create_run("0").info.run_id)
    sent = [point for some in send_points(client, run_id, points, START) for point in some]
    assert [step for step, _ in sent] == [step for step, _ in points]
    assert rows_of(file, run_id) == rows_of(file, sent_by_mlflow(client, points))


def test_a_long_curve_goes_by_two_calls(
    store: tuple[MlflowClient, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, file = store
    assert database_with_rows(client) is not None
    calls: list[int] = []
    whole = MlflowClient.log_batch

    def counted(self: MlflowClient, run_id: str, **given: Any) -> Any:
        calls.append(len(given["metrics"]))
        return whole(self, run_id, **given)

    monkeypatch.setattr(MlflowClient, "log_batch", counted)
    run_id = str(client.create_run("0").info.run_id)
    points: list[Point] = [(step, {"loss": 1 / step, "q": 1.0}) for step in range(1, 2001)]
    assert sum(len(some) for some in send_points(client, run_id, points, START)) == 2000
    assert calls == [2, 2]
    assert len(rows_of(file, run_id)["metrics"]) == 4000
    assert client.get_run(run_id).data.metrics == {"loss": 1 / 2000, "q": 1.0}


def test_what_was_interrupted_can_be_sent_again(store: tuple[MlflowClient, Path]) -> None:
    client, file = store
    run_id = str(client.create_run("0").info.run_id)
    points: list[Point] = [(step, {"loss": 1.0 / step}) for step in range(1, 51)]
    sending = send_points(client, run_id, points, START)
    next(sending)
    rows = curve_points.database_with_rows(client)
    assert rows is not None
    curve_points._insert(rows, run_id, points[1:-1], START)  # killed before its last call
    again = [point for some in send_points(client, run_id, points, START) for point in some]
    assert len(again) == 50
    assert rows_of(file, run_id) == rows_of(file, sent_by_mlflow(client, points))


def test_a_name_that_mlflow_refuses_leaves_no_row(store: tuple[MlflowClient, Path]) -> None:
    client, file = store
    run_id = str(client.create_run("0").info.run_id)
    points: list[Point] = [(step, {"loss?": 1.0}) for step in range(10)]
    with pytest.raises(MlflowException, match="loss"):
        list(send_points(client, run_id, points, START))
    assert rows_of(file, run_id) == {"metrics": [], "latest_metrics": []}


def test_of_two_values_at_one_step_the_one_that_was_logged_last_is_read(
    store: tuple[MlflowClient, Path],
) -> None:
    client, _ = store
    run_id = str(client.create_run("0").info.run_id)
    for value, time in ((2.0, START + 9), (1.0, START)):  # the older one is written after it
        client.log_metric(run_id, "loss", value, timestamp=time, step=5)
    client.log_metric(run_id, "loss", 3.0, timestamp=START + 1, step=6)
    (found,) = histories(client, [client.get_run(run_id)])
    assert found == {"loss": {5: 2.0, 6: 3.0}}
