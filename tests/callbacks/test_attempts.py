"""A trial of others that begins again from nothing is another attempt, with a run of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from tests.callbacks.conftest import history, runs
from tests.callbacks.test_records import Theirs, a_trial
from tests.tune.conftest import Fit
from zotune.callbacks import MLflowCurves, sync
from zotune.callbacks.session import Session, open_session
from zotune.callbacks.spool import read_records
from zotune.callbacks.summary_run import rows_of, spending_of
from zotune.core.aim import Aim
from zotune.results.store import Store

ABOUT: dict[str, Any] = {
    "experiment": "theirs",
    "tags": {},
    "metric": "val_loss",
    "mode": "min",
}


def theirs() -> Any:
    return a_trial(Theirs, config={"lr": 0.5}, evaluated_params={"lr": 0.5})


def report(session: Session, trial: Any, *rows: tuple[int, float]) -> None:
    """Let a trial report its metric after some iterations."""
    session.write(session.journal.start(trial))
    for iteration, value in rows:
        row = {"training_iteration": iteration, "val_loss": value}
        trial.run_metadata.last_result = row
        session.write(session.journal.result(trial, row, None))


@pytest.fixture
def restored(tmp_path: Path, store: str) -> str:
    """A store with a trial that was killed after two reports, and began again from nothing."""
    folder, about = str(tmp_path / "spool"), ABOUT | {"tracking_uri": store}
    trial = theirs()
    killed = open_session([trial], store, about, folder)
    report(killed, trial, (1, 4.0), (2, 3.0))
    killed.spool.close()
    assert sync(folder, seconds=0)[0].is_complete
    session = open_session([trial], store, about, folder)
    report(session, trial, (1, 40.0), (2, 30.0), (3, 20.0))
    session.write([*session.journal.end(trial, "FINISHED"), session.journal.close()])
    session.spool.close()
    for points in (3, 0, 0):
        (done,) = sync(folder, seconds=0)
        assert (done.is_complete, done.points) == (True, points)
    return store


def test_each_attempt_has_its_own_curve(restored: str) -> None:
    (run,) = runs(restored, "theirs").values()
    assert run.info.run_name == "lr=0.5 (attempt 2)"
    assert run.data.tags["zotune.attempt"] == "2"
    assert history(restored, run, "val_loss") == [(1, 40.0), (2, 30.0), (3, 20.0)]
    (first,) = runs(restored, "theirs", "superseded").values()
    assert history(restored, first, "val_loss") == [(1, 4.0), (2, 3.0)]
    assert first.info.status == "KILLED"


def test_reports_and_summaries_have_the_last_attempt_and_what_was_repeated(
    restored: str, tmp_path: Path
) -> None:
    (launch,) = Store.open(restored).read("theirs")
    (trial,) = launch.trials
    assert (trial.row["val_loss"], trial.spent, trial.row["repeated"]) == (20.0, 3, 2)
    (spool,) = (tmp_path / "spool").iterdir()
    records = read_records(spool)[0]
    (row,) = rows_of(records, Aim("val_loss"))
    assert (row["val_loss"], row["spent"]) == (20.0, 3)
    assert (spending_of(records).charged, spending_of(records).repeated) == (3, 2)


def test_a_trial_that_goes_on_from_a_checkpoint_is_one_attempt(tmp_path: Path, store: str) -> None:
    folder, about = str(tmp_path / "spool"), ABOUT | {"tracking_uri": store}
    trial = theirs()
    session = open_session([trial], store, about, folder)
    report(session, trial, (1, 4.0), (2, 3.0))
    report(session, trial, (2, 3.0), (3, 2.0))
    session.write([*session.journal.end(trial, "FINISHED"), session.journal.close()])
    session.spool.close()
    assert sync(folder, seconds=0)[0].points == 3
    assert set(runs(store, "theirs")) == {"lr=0.5"}


@pytest.mark.slow
def test_a_stock_function_whose_worker_is_killed_has_two_attempts(
    fit: Fit, store: str, tmp_path: Path
) -> None:
    mark = tmp_path / "killed"

    def killed_once(config: dict[str, Any]) -> None:
        again = mark.exists()
        for at in (1, 2, 3):
            tune.report({"val_loss": 10.0 * at if again else 1.0 * at})
            if at == 2 and not again:
                mark.touch()
                os._exit(1)

    options = {"metric": "val_loss", "mode": "min"}
    fit(
        killed_once,
        {"lr": tune.grid_search([0.5])},
        callbacks=[MLflowCurves(store, "theirs")],
        failure=tune.FailureConfig(max_failures=1),
        **options,
    )
    (run,) = runs(store, "theirs").values()
    assert history(store, run, "val_loss") == [(1, 10.0), (2, 20.0), (3, 30.0)]
    (first,) = runs(store, "theirs", "superseded").values()
    assert set(history(store, first, "val_loss")) <= {(1, 1.0), (2, 2.0)}
