"""Workers, drivers and nodes die; objectives raise. Nothing is lost or counted twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from ray import tune
from torch import Tensor

import zotune
from tests.instrument import INSTRUMENT
from tests.servers import wait_for
from tests.solo import reported, untimed
from tests.tune.conftest import QUIET, Fit
from zotune.callbacks import FailFast

CONFIG: dict[str, Any] = {
    **INSTRUMENT,
    "problem": {"name": "quadratic", "dim": 30},
    "estimator": "align",
    "q": 7,
    "budget": 2000,
    "replicates": 3,
}
EVERY = tune.CheckpointConfig(checkpoint_frequency=3, num_to_keep=2)


class Killer(tune.Callback):
    """Kills the worker of a trial, once, when it has reported so often."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.killed: list[int] = []
        self.spent: list[int] = []

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.spent.append(result["spent"])
        if len(self.spent) == self.after:
            self.killed.append(result["pid"])
            os.kill(result["pid"], signal.SIGKILL)


def undisturbed(config: dict[str, Any] = CONFIG) -> zotune.Run:
    settings = dict(config)
    return reported(settings.pop("problem"), **settings)


def test_a_killed_worker_is_retried_and_its_curve_is_bit_for_bit_the_undisturbed_one(
    fit: Fit,
) -> None:
    killer = Killer(after=8)
    results = fit(
        zotune.ZOTrainable,
        CONFIG,
        callbacks=[killer, FailFast()],
        checkpoint=EVERY,
        failure=tune.FailureConfig(max_failures=1),
    )
    assert killer.killed
    assert not results.errors
    run, alone = zotune.load_run(results[0]), undisturbed()
    assert torch.equal(run.x, alone.x)
    assert torch.equal(run.best_x, alone.best_x)
    assert untimed(run.rows) == alone.rows
    assert run.state.ledger == alone.state.ledger
    assert results[0].metrics["queries"] == 2000
    assert 0 < len(killer.spent) - len(set(killer.spent)) <= 3  # reported again, not charged again


@pytest.mark.slow
def test_a_worker_killed_before_its_first_checkpoint_starts_over(fit: Fit) -> None:
    killer = Killer(after=2)
    results = fit(
        zotune.ZOTrainable,
        CONFIG,
        callbacks=[killer],
        failure=tune.FailureConfig(max_failures=1),
    )
    assert killer.killed
    assert untimed(zotune.load_run(results[0]).rows) == undisturbed().rows


def fragile(x: Tensor) -> float:
    value = float((x**2).sum())
    if value > 30:
        raise RuntimeError("the simulator left its range")
    return value


@pytest.mark.slow
def test_an_objective_that_raises_fails_its_trial_at_once_and_the_others_go_on(fit: Fit) -> None:
    class Attempts(tune.Callback):
        started: list[str]

        def setup(self, **info: Any) -> None:
            self.started = []

        def on_trial_start(
            self, iteration: int, trials: list[Any], trial: Any, **info: Any
        ) -> None:
            self.started.append(trial.trial_id)

    attempts = Attempts()
    objective = zotune.objective(fragile, dim=5, L=2.0)
    results = fit(
        zotune.trainable(objective, budget=300, q=5),
        {"eta": tune.grid_search([0.5, 20.0]), "step": "constant", "seed": 0},
        callbacks=[attempts, FailFast()],
        failure=tune.FailureConfig(max_failures=3),
    )
    assert results.num_errors == 1
    assert results.num_terminated == 1
    (error,) = results.errors
    assert "the simulator left its range" in str(error)
    assert "in fragile" in str(error)  # the user's own traceback
    assert len(attempts.started) == 2


def test_settings_that_cannot_be_used_are_not_retried(fit: Fit) -> None:
    results = fit(
        zotune.ZOTrainable,
        CONFIG | {"q": 31},
        callbacks=[FailFast()],
        failure=tune.FailureConfig(max_failures=-1),
    )
    assert results.num_errors == 1
    assert "q must be at most the dimension for estimator 'align'" in str(results.errors[0])


DRIVER = """
    import sys, time
    import ray, torch, zotune
    from ray import tune

    def slow(x):
        time.sleep(0.0005)
        return ((x - 1) ** 2).sum()

    storage, mode = sys.argv[1:]
    objective = zotune.objective(slow, dim=6, L=2.0, optimum=0.0)
    trainable = zotune.trainable(objective, name="slow")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    if mode == "restore":
        tuner = tune.Tuner.restore(storage + "/study", trainable=trainable)
    else:
        tuner = tune.Tuner(
            trainable,
            param_space={
                "q": tune.grid_search([1, 6]),
                "budget": 900,
                "step": "constant",
                "eta": 0.05,
            },
            tune_config=tune.TuneConfig(reuse_actors=True),
            run_config=tune.RunConfig(
                name="study",
                storage_path=storage,
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2, num_to_keep=2),
            ),
        )
    results = tuner.fit()
    assert not results.errors, results.errors
    runs = {r.config["q"]: zotune.load_run(r) for r in results}
    for q, run in sorted(runs.items()):
        rows = [{key: row[key] for key in row if key != "seconds"} for row in run.rows]
        print(q, run.x.tolist(), rows, run.state.ledger)
"""


@pytest.mark.slow
def test_a_killed_driver_is_restored_and_every_curve_is_the_undisturbed_one(tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(textwrap.dedent(DRIVER))

    def command(storage: str, mode: str) -> list[str]:
        return [sys.executable, str(tmp_path / "driver.py"), str(tmp_path / storage), mode]

    environment = os.environ | QUIET | {"TUNE_GLOBAL_CHECKPOINT_S": "0"}
    victim = subprocess.Popen(
        command("killed", "start"),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(lambda: len(list((tmp_path / "killed").rglob("checkpoint_*"))) >= 3)
    os.killpg(victim.pid, signal.SIGKILL)  # the driver and all of its Ray
    victim.wait()
    outputs = [
        subprocess.run(
            command(*arguments), env=environment, capture_output=True, text=True, timeout=300
        )
        for arguments in (("killed", "restore"), ("undisturbed", "start"))
    ]
    assert outputs[0].returncode == 0, outputs[0].stderr
    restored, undisturbed = (output.stdout.splitlines() for output in outputs)
    assert [a == b for a, b in zip(restored, undisturbed, strict=True)] == [True, True]
    assert restored[0].startswith("1 [[")


CLUSTER = """
    import json, subprocess, sys, threading, time
    import ray, torch, zotune
    from ray import tune
    from ray.cluster_utils import Cluster
    from tests.solo import untimed

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    extra = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    nodes = []

    class Remover(tune.Callback):  # is pickled, and so must not hold the cluster
        def on_trial_result(self, iteration, trials, trial, result, **info):
            here = sys.modules["__main__"]
            here.nodes.append(result["node_id"])
            if len(set(here.nodes)) == 2 and here.extra in here.cluster.worker_nodes:
                here.cluster.remove_node(here.extra, allow_graceful=False)

    class Located(zotune.ZOTrainable):
        def step(self):
            time.sleep(0.2)
            return super().step() | {"node_id": ray.get_runtime_context().get_node_id()}

    config = {"problem": {"name": "quadratic", "dim": 20}, "estimator": "align", "budget": 400}
    results = tune.Tuner(
        Located,
        param_space=config | {"q": tune.grid_search([2, 5])},
        run_config=tune.RunConfig(
            storage_path=sys.argv[1],
            verbose=0,
            callbacks=[Remover(), zotune.callbacks.FailFast()],
            failure_config=tune.FailureConfig(max_failures=2),
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2, num_to_keep=2),
        ),
    ).fit()
    assert not results.errors, results.errors
    assert len(set(nodes)) == 2, nodes
    assert not cluster.worker_nodes
    torch.set_num_threads(1)  # as a trial with one CPU has it; products round by their threads
    for result in results:
        q = result.config["q"]
        told = {"estimator": "align", "q": q, "budget": 400}
        alone = zotune.minimize(config["problem"], on_report=print, **told)
        assert untimed(zotune.load_run(result).rows) == alone.rows
    print("moved")
    command = [sys.executable, "-m", "zotune.cli", "run", "smoke", "--address", cluster.address]
    options = ["--storage", sys.argv[1], "--tracking-uri", "none", "--json"]
    done = subprocess.run([*command, *options], check=True, capture_output=True, text=True)
    print("trials on the cluster:", json.loads(done.stdout)["trials"])
    larger = [*command, *options, "--set", "resources.cpu=2"]
    print(subprocess.run(larger, capture_output=True, text=True).stderr)
"""


@pytest.mark.long
def test_a_node_removed_moves_its_trials_and_the_command_line_uses_what_is_left(
    tmp_path: Path,
) -> None:
    (tmp_path / "cluster.py").write_text(textwrap.dedent(CLUSTER))
    done = subprocess.run(
        [sys.executable, str(tmp_path / "cluster.py"), str(tmp_path / "results")],
        env=os.environ | QUIET | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "moved" in done.stdout.splitlines()
    smoke = zotune.load_study("smoke").size
    assert f"trials on the cluster: {smoke}" in done.stdout.splitlines()
    assert "zotune: a trial wants 2 CPU, and the largest machine has 1;" in done.stdout
