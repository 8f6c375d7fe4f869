"""One total for a whole study, on a real Ray: every search and scheduler keeps it, kills too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from ray import tune

import zotune
from tests.conftest import QUIET
from tests.evaluators.objectives import dying_and_called
from tests.instrument import plain_study
from tests.servers import wait_for
from zotune.bench.tuning.rehearsal import race
from zotune.core.account import spent_in
from zotune.core.spending import Spending
from zotune.objectives import build_any_problem
from zotune.study.totals import plan_of_race

SMALL: dict[str, Any] = {
    "name": "mine",
    "problem": {"name": "quadratic", "dim": 12},
    "budget": 96,
    "replicates": 2,
    "space": {"estimator": ["avg", "align"], "q": [1, 5]},
}
VALLEY_START = [-1.2, 1.0, 1.0]


class Killer(tune.Callback):
    """Kills the worker of the trial that makes the report of this number, once."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.seen += 1
        if self.seen == self.at:
            os.kill(result["pid"], signal.SIGKILL)


class KillerAtTheEnd(tune.Callback):
    """Kills the worker of every trial that has reported its end, once, before it is saved."""

    def __init__(self) -> None:
        self.killed: list[str] = []

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if result["done"] and trial.trial_id not in self.killed:
            self.killed.append(trial.trial_id)
            os.kill(result["pid"], signal.SIGKILL)


def run(tmp_path: Path, *callbacks: tune.Callback, **changes: Any) -> tuple[Any, Spending]:
    """The rows of a study's trials, and what it has spent."""
    study = plain_study(**SMALL | changes)
    results = study.run(tracking_uri="none", storage_path=tmp_path, callbacks=callbacks)
    assert not results.errors
    rows = [results[at].metrics or {} for at in range(len(results))]
    (folder,) = (tmp_path / "mine").iterdir()
    return [row for row in rows if "loss" in row], spent_in(folder)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_a_grid_spends_its_total_and_begins_nothing_that_does_not_fit(tmp_path: Path) -> None:
    rows, spending = run(tmp_path, Killer(at=7), total=250)
    assert spending.charged == sum(row["charged"] for row in rows)
    assert 240 < spending.charged <= 250  # less than a step is left
    assert spending.repeated > 0
    assert spending.trials == len(rows) < 4
    assert (spending.reserved, spending.left) == (0, 250 - spending.charged)


@pytest.mark.usefixtures("shared_ray")
def test_without_a_total_everything_is_booked_all_the_same(tmp_path: Path) -> None:
    rows, spending = run(tmp_path)
    assert spending.charged == 4 * 2 * 96 == sum(row["charged"] for row in rows)
    assert spending.monitored == sum(row["looked"] for row in rows) > 0
    assert (spending.repeated, spending.total, spending.left) == (0, None, None)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_a_trial_whose_worker_dies_after_its_last_report_is_not_run_again(tmp_path: Path) -> None:
    rows, spending = run(tmp_path, KillerAtTheEnd(), space={"q": [1, 5]})
    assert (spending.charged, spending.repeated) == (2 * 2 * 96, 0)
    assert [row["status"] for row in rows] == ["exhausted", "exhausted"]
    (folder,) = (tmp_path / "mine").iterdir()
    for trial in folder.glob("*_q*"):
        assert zotune.load_run(trial).spent == 96
        assert not (trial / "ending").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
@pytest.mark.parametrize("workers", [0, 1])
def test_calls_of_a_function_of_ones_own_are_all_in_the_account(
    tmp_path: Path, workers: int
) -> None:
    resources = {"cpu": 0.5, "workers": workers, "worker": {"cpu": 0.25}}
    changed = {"budget": 40, "report_every": 10, "space": {"q": [1, 2, 3]}, "resources": resources}
    function = zotune.objective(partial(dying_and_called, folder=tmp_path), 3, start=VALLEY_START)
    tuner = plain_study(**SMALL | changed).tuner(
        trainable=zotune.trainable(function), storage_path=tmp_path, max_concurrent_trials=1
    )
    assert not tuner.fit().errors
    (folder,) = (tmp_path / "mine").iterdir()
    spending = spent_in(folder)
    assert (tmp_path / "died").exists()
    assert spending.repeated > 0
    assert spending.charged <= 3 * 2 * 40
    called = len((tmp_path / "calls").read_bytes())
    assert spending.evaluations + spending.monitored + spending.repeated == called


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_optuna_and_asha_stay_within_a_total(tmp_path: Path) -> None:
    rows, spending = run(
        tmp_path,
        total=400,
        scheduler="asha",
        space={"eta": {"loguniform": [0.1, 2]}},
        search={"algorithm": "optuna", "trials": 8},
    )
    assert 350 < spending.charged <= 400  # less than a first report is left
    assert spending.trials == len(rows) < 8


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_a_population_moves_its_weak_trials_and_pays_for_what_they_spend(tmp_path: Path) -> None:
    rows, spending = run(
        tmp_path,
        total=500,
        scheduler="pbt",
        report_every=24,
        space={"eta": [0.05, 0.1, 1, 2]},
    )
    assert len(rows) == 4
    assert spending.charged <= 500
    assert spending.charged > 500 - 2 * 24
    assert 0.05 not in {row["config"]["eta"] for row in rows}  # the weakest was given up


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
@pytest.mark.parametrize("auto", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_race_is_the_one_without_ray_bit_for_bit_though_a_worker_is_killed(
    tmp_path: Path, auto: bool
) -> None:
    changes = {"total": 801, "search": {"algorithm": "race", "auto": auto}}
    changes |= {"budget": 400, "count": "evaluations"}
    study = plain_study(**SMALL | changes)
    assert study.size == 4 + auto
    rows, spending = run(tmp_path, Killer(at=3), **changes)
    configs = [study.configuration(point) for point in study.trials]
    problem = build_any_problem(study.config["problem"])
    alone = race(configs, problem, plan_of_race(study), 801)
    assert spending.charged == alone.account.charged <= 801
    assert sorted(row["charged"] for row in rows) == sorted(
        racer.position for racer in alone.racers.values()
    )
    (folder,) = (tmp_path / "mine").iterdir()
    best = zotune.load_run(folder)
    assert alone.winner.state is not None
    assert torch.equal(best.x, alone.winner.state.x)
    assert best.spent == alone.winner.position // 2


SLOW = """
import time
import zotune

@zotune.objectives.register("slow")
def slow(dim: int = 10):
    def value(x):
        time.sleep(0.002)
        return ((x - 1) ** 2).sum()
    return zotune.objective(value, dim, L=2.0, optimum=0.0)
"""
STUDY = """
name: slow
problem: {name: slow}
total: 1500
count: evaluations
space: {estimator: [avg, align], eta: [0.5, 1]}
search: {algorithm: race}
"""


@pytest.mark.slow
def test_a_race_whose_driver_is_killed_goes_on_to_the_same_end_within_its_total(
    tmp_path: Path,
) -> None:
    """Killed once in its first rung and once when the winner runs alone."""
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "slow.yaml").write_text(STUDY)
    undisturbed = started(tmp_path, "whole")
    assert undisturbed.wait() == 0
    whole = only(tmp_path / "whole" / "slow")
    for spent in (60, 1000):
        driver = started(tmp_path, "out", *(["--resume"] if spent > 60 else []))
        wait_for(lambda spent=spent: charged(tmp_path / "out" / "slow") >= spent)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert started(tmp_path, "out", "--resume").wait() == 0
    killed = only(tmp_path / "out" / "slow")
    spending, clean = spent_in(killed), spent_in(whole)
    assert spending.charged == clean.charged <= 1500
    assert spending.repeated > 0 == clean.repeated
    run, alone = zotune.load_run(killed), zotune.load_run(whole)
    assert torch.equal(run.x, alone.x)
    assert run.spent == alone.spent
    best = started(tmp_path, "out", "--resume", killed.name, "--budget", "1400", "--only", "best")
    assert best.wait() == 0
    (more,) = (f for f in (tmp_path / "out" / "slow").iterdir() if f != killed)
    assert zotune.load_run(more).spent == 1400
    assert spent_in(more).charged == 1400 - run.spent


def started(folder: Path, storage: str, *words: str) -> subprocess.Popen[str]:
    """``zotune run`` in a process group of its own."""
    program = [sys.executable, "-m", "zotune.cli", "run", "slow.yaml", "--import", "slow.py"]
    options = ["--storage", storage, "--tracking-uri", "none", "--json", *words]
    environment = {k: v for k, v in os.environ.items() if k not in QUIET}
    with (folder / "output").open("a") as output:
        return subprocess.Popen(
            [*program, *options],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            text=True,
            start_new_session=True,
        )


def only(folder: Path) -> Path:
    (found,) = (f for f in folder.iterdir() if (f / "launch.json").is_file())
    return found


def charged(folder: Path) -> int:
    return sum(spent_in(launch).charged for launch in folder.glob("*"))


def test_bad_totals_are_told_without_ray(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(json.dumps(SMALL))
    program = [sys.executable, "-m", "zotune.cli", "run", str(tmp_path / "s.yaml")]
    done = subprocess.run(
        [*program, "--total", "5", "--storage", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "total must cover the first report of one trial" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
