"""What a script has set by MLflow's own functions is used, or named as not used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.tracking import fluent
from ray import tune

from tests.tune.conftest import Fit
from zotune.callbacks import MLflowCurves
from zotune.callbacks.script_settings import script_settings
from zotune.callbacks.session import Session, describe
from zotune.callbacks.stores import URI, is_found_by_default, open_client, resolve_uri


@pytest.fixture
def script(store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A store that a script has set, for this test only."""
    for name in (URI, "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
        monkeypatch.setenv(name, "kept")  # to be restored
        monkeypatch.delenv(name)
    monkeypatch.setattr(fluent, "_active_experiment_id", None)
    mlflow.set_tracking_uri(store)
    yield store
    while mlflow.active_run() is not None:
        mlflow.end_run()
    mlflow.set_tracking_uri(None)  # type: ignore[arg-type]


def test_set_experiment_and_the_active_run_are_used(script: str) -> None:
    assert script_settings(script) == script_settings(script, "mine")
    assert script_settings(script).experiment is None
    mlflow.set_experiment("set")
    assert (script_settings(script).experiment, script_settings(script).parent) == ("set", None)
    parent = mlflow.start_run().info.run_id
    used = script_settings(script)
    assert (used.experiment, used.parent, used.problems) == ("set", parent, [])


def test_what_is_not_used_is_named(script: str, tmp_path: Path) -> None:
    mlflow.set_experiment("set")
    (said,) = script_settings(f"sqlite:///{tmp_path}/other.db").problems
    assert said.startswith("the experiment of set_experiment is in another store, sqlite:///")
    parent = mlflow.start_run().info.run_id
    (said,) = script_settings(script, "mine").problems
    assert said == (
        f"the active run {parent} is in experiment 'set', not in 'mine'; it is not the parent"
    )


def test_a_store_that_a_script_has_set_is_in_the_hint_for_another_shell(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_uri() == script
    assert not is_found_by_default(script)
    usual = f"sqlite:///{tmp_path}/mlflow.db"
    assert not is_found_by_default(usual)  # this environment has another
    monkeypatch.delenv(URI)
    assert is_found_by_default(usual)
    assert not is_found_by_default(script)


def test_the_address_of_a_hint_has_the_credentials_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(URI, "https://me:secret@host.example")
    assert resolve_uri("https://host.example") == "https://me:secret@host.example"
    assert resolve_uri("https://other.example") == "https://other.example"


def test_spools_of_remote_experiments_are_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.callbacks.test_forgotten import trial
    from zotune.callbacks.session import open_session

    monkeypatch.chdir(tmp_path)
    one, about = trial("one", 1), {"experiment": "mine", "tags": {}, "tracking_uri": "none"}
    for folder in ("zotune-spool", "points"):
        session: Session = open_session([one], "sqlite:///no.db", about)
        session.spool.close()
        assert session.spool.folder.relative_to(tmp_path).parts[0] == folder
        monkeypatch.setenv("ZOTUNE_SPOOL", str(tmp_path / "points"))
    assert describe(None, "mine", about)["experiment"] == "mine"


def mixed(config: dict[str, Any]) -> None:
    """A stock function that reports all kinds of values, and leaves a file."""
    import numpy as np

    row = {"loss": np.array(1.5), "good": True, "small": np.float32(0.5), "note": "fine"}
    tune.report(row | {"sizes": [1, 2], "counts": np.zeros(3), "nested": {"deep": 2}})


@pytest.mark.slow
def test_all_kinds_of_values_are_recorded_or_named_below_the_active_run(
    fit: Fit, script: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    mlflow.set_experiment("set")
    parent = mlflow.start_run().info.run_id
    fit(mixed, {"lr": tune.grid_search([1, 2])}, callbacks=[MLflowCurves()])
    found = runs_of_trials(script)
    assert set(found) == {"lr=1", "lr=2"}
    metrics = found["lr=1"].data.metrics
    known = {key: metrics.get(key) for key in ("loss", "good", "small", "nested/deep")}
    assert known == {"loss": 1.5, "good": 1.0, "small": 0.5, "nested/deep": 2.0}
    said = [message for message in caplog.messages if "no numbers" in message]
    assert said == [
        "MLflow: note (str), sizes (list), counts (array of shape (3,)): no numbers, "
        "and not recorded"
    ]
    (summary,) = (run for run in every_run(script) if run.data.tags.get("zotune.kind") == "summary")
    assert summary.data.tags["mlflow.parentRunId"] == parent
    assert f"zotune ui set --tracking-uri {script}" in capsys.readouterr().out


def every_run(store: str) -> list[Any]:
    client = open_client(store)
    found = client.get_experiment_by_name("set")
    assert found is not None
    return list(client.search_runs([found.experiment_id]))


def runs_of_trials(store: str) -> dict[str, Any]:
    trials = [run for run in every_run(store) if run.data.tags.get("zotune.kind") == "trial"]
    return {str(run.info.run_name): run for run in trials}
