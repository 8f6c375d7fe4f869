"""Servers refuse, hang, answer 500, go away and come back; deliverers and workers are killed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray import tune

import zotune
from tests.callbacks.conftest import (
    FAIL,
    FORWARD,
    HANG,
    REFUSE,
    At,
    Gate,
    Server,
    history,
    runs,
    wait_for,
)
from tests.callbacks.test_mlflow_curves import CONFIG, expected, undisturbed
from tests.tune.conftest import Fit
from zotune.callbacks import MLflowCurves, sync
from zotune.callbacks.spool import Spool, SpoolError, find_spools

pytestmark = pytest.mark.faults
EVERY = tune.CheckpointConfig(checkpoint_frequency=3, num_to_keep=2)


class Killer(tune.Callback):
    """Kills the worker of a trial, once, when it has reported so often."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.reports = 0

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.reports += 1
        if self.reports == self.after:
            os.kill(result["pid"], signal.SIGKILL)


def check(uri: str, experiment: str, config: dict[str, Any] = CONFIG) -> None:
    """One run of the trial, finished, with every point of every metric once."""
    (run,) = runs(uri, experiment).values()
    assert run.info.status == "FINISHED"
    for key, points in expected(undisturbed(config)).items():
        assert history(uri, run, key) == points
        assert len(history(uri, run, f"final_{key}")) == 1
    (summary,) = runs(uri, experiment, "summary").values()
    assert summary.info.status == "FINISHED"


def test_a_killed_worker_and_a_server_that_hangs_and_fails_leave_each_point_once(
    fit: Fit, gate: Gate, running_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    gate.mode = HANG

    def mode(name: str) -> Callable[[], None]:
        return lambda: setattr(gate, "mode", name)

    killer = Killer(after=8)
    results = fit(
        zotune.ZOTrainable,
        CONFIG,
        callbacks=[
            MLflowCurves(gate.uri, "faults"),
            At(result_6=mode(FAIL), result_10=mode(FORWARD)),
            killer,
        ],
        checkpoint=EVERY,
        failure=tune.FailureConfig(max_failures=1),
    )
    assert not results.errors
    assert killer.reports > 16  # some came twice
    check(gate.uri, "faults")


def test_a_server_that_is_away_ends_nothing_and_sync_delivers_what_is_left(
    fit: Fit, gate: Gate, running_server: Server, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    gate.mode = REFUSE
    uri = gate.uri.replace("://", "://me:open-sesame@")
    callback = MLflowCurves(uri, "away")
    with caplog.at_level(logging.WARNING, "zotune"):
        results = fit(zotune.ZOTrainable, CONFIG, callbacks=[callback])
    assert not results.errors
    (said,) = [record.message for record in caplog.records if record.name == "zotune"]
    (spool,) = find_spools(tmp_path)
    assert said.startswith(f"MLflow: {gate.uri} does not answer (")
    assert "; 320 curve points of 1 trials are kept. Later: zotune sync " in said
    assert said.endswith(f" {spool.parent.parent}")
    (failed,) = sync(tmp_path, seconds=0)
    assert not failed.is_complete
    assert failed.left
    gate.mode = FORWARD
    (report,) = sync(tmp_path)
    assert (report.points, report.left, report.problem) == (320, 0, "")
    (again,) = sync(tmp_path)
    assert (again.points, again.is_complete) == (0, True)
    check(gate.uri, "away")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    secret = [path for path in [*files, running_server.database] if b"sesame" in path.read_bytes()]
    assert not secret
    assert "sesame" not in said


def test_sync_says_what_is_wrong_with_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match=r"no curves in .*; give the folder of an experiment"):
        sync(tmp_path)


def a_spool(folder: Path, uri: str, experiment: str, points: int = 3000) -> list[tuple[int, float]]:
    """A spool of one finished trial, as a driver would have left it."""
    about = {"launch_id": folder.name, "time": 1000, "experiment": experiment}
    spool = Spool(folder, about | {"tracking_uri": uri, "versions": {"zotune": "0"}})
    trial = {"trial": "t1", "time": 1000}
    spool.append(trial | {"kind": "started", "name": "one", "params": {"q": "1"}})
    curve = [(step, step / 7) for step in range(points)]
    spool.append(trial | {"kind": "points", "points": [[s, {"loss": v}] for s, v in curve]})
    end = {"kind": "ended", "status": "FINISHED", "step": points, "final": {"loss": 0.5}}
    spool.append(trial | end | {"tags": {"zotune.status": "exhausted"}, "checkpoint": None})
    spool.append({"kind": "closed", "time": 2000})
    spool.close()
    return curve


def deliverer(folder: Path, uri: str) -> subprocess.Popen[bytes]:
    """The process that the callback starts."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "zotune.callbacks.delivery", str(folder)],
        env=os.environ | {"MLFLOW_TRACKING_URI": uri},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("moment", ["before_batch", "after_batch"])
def test_a_deliverer_killed_around_a_batch_is_continued_from_what_the_store_has(
    gate: Gate, running_server: Server, tmp_path: Path, moment: str
) -> None:
    curve = a_spool(tmp_path / "launch", gate.uri, moment)
    child: list[subprocess.Popen[bytes]] = []

    def kill(number: int) -> bool:
        if number == 2:
            child[0].kill()
            child[0].wait()
        return number == 2

    setattr(gate, moment, kill)
    child.append(deliverer(tmp_path / "launch", gate.uri))
    wait_for(lambda: child[0].poll() is not None)
    assert child[0].returncode == -signal.SIGKILL
    (report,) = sync(tmp_path)
    stored = 1000 if moment == "before_batch" else 2000
    assert report.points == len(curve) - stored
    (run,) = runs(gate.uri, moment).values()
    assert history(gate.uri, run, "loss") == curve
    assert run.info.status == "FINISHED"


def test_two_processes_open_one_new_sqlite_store_at_once(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'new.db'}"
    names = ["a", "b"]
    curves = {name: a_spool(tmp_path / name, uri, "shared", 1500) for name in names}
    children = [deliverer(tmp_path / name, uri) for name in names]
    assert [child.wait(300) for child in children] == [0, 0]
    client_runs = [r for r in _all_runs(uri, "shared") if r.data.tags["zotune.kind"] == "trial"]
    assert sorted(run.data.tags["zotune.launch_id"] for run in client_runs) == names
    for run in client_runs:
        assert history(uri, run, "loss") == curves[run.data.tags["zotune.launch_id"]]


def _all_runs(uri: str, experiment: str) -> list[Any]:
    from zotune.callbacks.stores import open_client

    client = open_client(uri)
    found = client.get_experiment_by_name(experiment)
    assert found is not None
    return list(client.search_runs([found.experiment_id]))


def test_a_server_stopped_and_started_in_mid_study_has_each_point_once(
    fit: Fit, running_server: Server
) -> None:
    uri = f"http://127.0.0.1:{running_server.port}"
    callback = MLflowCurves(uri, "restarted", wait=90)

    def start() -> None:
        running_server.start()
        wait_for(running_server.answers)

    stop_and_start = At(result_3=running_server.stop, result_9=start)
    results = fit(zotune.ZOTrainable, CONFIG, callbacks=[callback, stop_and_start])
    assert not results.errors
    check(uri, "restarted")
