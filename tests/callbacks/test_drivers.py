"""A driver is killed, restored, interrupted, restored: one run a trial, each point once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import zotune
from tests.callbacks.conftest import history, runs, wait_for
from tests.callbacks.test_mlflow_curves import expected
from tests.solo import reported
from tests.tune.conftest import QUIET
from zotune.callbacks.spool import find_spools, read_records

pytestmark = pytest.mark.faults
DRIVER = """
    import sys, time
    import ray, zotune
    from ray import tune

    def slow(x):
        time.sleep(0.003)
        return ((x - 1) ** 2).sum()

    storage, uri, mode = sys.argv[1:]
    objective = zotune.objective(slow, dim=6, L=2.0, optimum=0.0)
    trainable = zotune.trainable(objective, name="slow")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    if mode == "restore":
        tuner = tune.Tuner.restore(storage + "/study", trainable=trainable)
    else:
        space = {"q": tune.grid_search([1, 6]), "budget": 900, "step": "constant", "eta": 0.05}
        space |= {"estimator": "align", "update": "sgd"}
        tuner = tune.Tuner(
            trainable,
            param_space=space | {"curve": True},
            tune_config=tune.TuneConfig(reuse_actors=True),
            run_config=tune.RunConfig(
                name="study",
                storage_path=storage,
                verbose=0,
                callbacks=[zotune.callbacks.MLflowCurves(uri, "drivers")],
                checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2, num_to_keep=2),
            ),
        )
    assert not tuner.fit().errors
"""


def points_on_disk(storage: Path) -> dict[str, int]:
    """How many points of each trial have been written down."""
    counts: dict[str, int] = {}
    for spool in find_spools(storage):
        for record in read_records(spool)[0]:
            if record["kind"] == "points":
                counts[record["trial"]] = counts.get(record["trial"], 0) + len(record["points"])
    return counts


def statuses(store: str) -> set[str]:
    return {run.info.status for run in runs(store, "drivers").values()}


def test_a_driver_killed_and_one_interrupted_leave_one_run_a_trial_and_each_point_once(
    tmp_path: Path, store: str
) -> None:
    (tmp_path / "driver.py").write_text(textwrap.dedent(DRIVER))
    storage = tmp_path / "results"

    def start(mode: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, str(tmp_path / "driver.py"), str(storage), store, mode],
            env=os.environ | QUIET | {"TUNE_GLOBAL_CHECKPOINT_S": "0"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def both_have(points: int) -> bool:
        counts = points_on_disk(storage)
        return len(counts) == 2 and min(counts.values()) >= points

    driver = start("new")
    wait_for(lambda: both_have(80) and list(storage.rglob("checkpoint_*")))
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    wait_for(lambda: statuses(store) == {"KILLED"})  # by the deliverer that is left behind

    driver = start("restore")
    wait_for(lambda: both_have(170))
    driver.send_signal(signal.SIGINT)
    assert driver.wait(300) == 0
    assert "KILLED" in statuses(store)
    assert "RUNNING" not in statuses(store)

    assert start("restore").wait(300) == 0
    assert statuses(store) == {"FINISHED"}
    found = runs(store, "drivers")
    assert set(found) == {"align q=1", "align q=6"}
    bowl = zotune.objective(lambda x: ((x - 1) ** 2).sum(), dim=6, L=2.0, optimum=0.0)
    for q in (1, 6):
        told = {"estimator": "align", "update": "sgd", "step": "constant", "eta": 0.05}
        alone = reported(bowl, q=q, budget=900, **told)
        for key, points in expected(alone).items():
            assert history(store, found[f"align q={q}"], key) == points
    (summary,) = runs(store, "drivers", "summary").values()
    assert summary.info.status == "FINISHED"
