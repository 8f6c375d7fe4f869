"""Evaluation workers of trials: bundles of the trial's placement group."""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import Any

import pytest
from ray import tune

import zotune
from tests.conftest import CountingBowl
from tests.instrument import INSTRUMENT
from tests.solo import reported
from tests.tune.conftest import Fit
from zotune.errors import ConfigError
from zotune.study import capacity
from zotune.study.shape import Resources, Share
from zotune.tune.trial_workers import TrialWorkers

OPENING = 6.0
"""Seconds that a simulator takes to arrive; a run of twelve steps takes a fraction of one."""
SETTINGS: dict[str, Any] = {**INSTRUMENT, "q": 4, "L": 3.0, "budget": 24, "report_every": 8}


def test_a_trial_with_workers_is_the_run_without_and_takes_their_bundles(fit: Fit) -> None:
    bowl = zotune.objective(CountingBowl(), dim=10, name="bowl")
    shares = tune.PlacementGroupFactory([{"CPU": 0.5}] * 3)
    trainable = tune.with_resources(zotune.trainable(bowl), shares)
    (result,) = fit(trainable, SETTINGS | {"workers": 2})
    alone = reported(bowl, **SETTINGS)
    assert result.error is None
    assert result.metrics is not None
    assert result.metrics["loss"] == alone.rows[-1]["loss"]
    assert result.metrics["evaluations"] == alone.rows[-1]["evaluations"]
    assert result.metrics["seconds"] > 0


@pytest.mark.slow
def test_the_start_of_workers_is_no_part_of_a_trial_s_wall_time(fit: Fit) -> None:
    class SlowToArrive(CountingBowl):
        """Takes its time wherever it is sent to: to the trial, and then to its worker."""

        def __setstate__(self, state: dict[str, Any]) -> None:
            sleep(OPENING)
            self.__dict__.update(state)

    shares = tune.PlacementGroupFactory([{"CPU": 0.5}] * 2)
    bowl = zotune.objective(SlowToArrive(), dim=10, name="bowl")
    trainable = tune.with_resources(zotune.trainable(bowl), shares)
    (result,) = fit(trainable, SETTINGS | {"workers": 1})
    assert result.metrics is not None
    assert result.metrics["seconds"] < OPENING


@pytest.mark.slow
def test_the_trials_of_a_study_have_the_workers_that_its_resources_say(
    shared_ray: None, tmp_path: Path
) -> None:
    study = zotune.Study(
        name="with-workers",
        problem={"name": "quadratic", "dim": 10},
        budget=20,
        fixed={"q": 4},
        resources={"cpu": 0.5, "workers": 2, "worker": {"cpu": 0.5}},
    )
    assert study.configuration(study.trials[0]).workers == 2
    (result,) = study.tuner(storage_path=tmp_path).fit()
    assert result.error is None
    assert result.metrics is not None
    assert result.metrics["config"]["workers"] == 2
    assert result.metrics["spent"] == 20


def test_a_trainable_asks_for_a_cpu_a_worker() -> None:
    asked = zotune.ZOTrainable.default_resource_request({"workers": 3})
    assert asked is not None
    assert asked.bundles == [{"CPU": 1.0}] * 4
    assert zotune.ZOTrainable.default_resource_request({}) is None


def test_workers_without_bundles_are_refused() -> None:
    one = TrialWorkers(tune.PlacementGroupFactory([{"CPU": 1}]))
    with pytest.raises(ConfigError, match="workers=2 need a bundle each"):
        one.require(2)


def test_workers_that_no_machine_holds_are_refused_before_ray_starts() -> None:
    wanted = Resources(cpu=1, gpu=0, workers=4, worker=Share(cpu=1, gpu=0.5))
    assert capacity.too_large(wanted, [{"CPU": 5.0, "GPU": 2.0}]) == ""
    assert capacity.too_large(wanted, [{"CPU": 4.0, "GPU": 2.0}]) == (
        "a trial with 4 workers wants 5 CPU, and all machines together have 4; "
        "lower workers or resources.worker.cpu"
    )
    assert "wants 0.5 GPU, and the largest machine has 0" in capacity.too_large(
        wanted, [{"CPU": 9.0}]
    )
    with pytest.raises(zotune.ZotuneError, match="'cpus' is not a key of worker"):
        zotune.Study(
            name="s",
            problem="quadratic",
            budget=9,
            resources={"workers": 1, "worker": {"cpus": 1}},
        )
