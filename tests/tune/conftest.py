"""One Ray for all tests that can share it: two CPUs and a GPU that is not there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray import tune

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


@pytest.fixture(scope="session")
def shared_ray() -> Iterator[None]:
    import ray

    os.environ.update(QUIET)
    ray.init(
        address="local",
        num_cpus=2,
        num_gpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield
    ray.shutdown()


Fit = Callable[..., tune.ResultGrid]


@pytest.fixture
def fit(shared_ray: None, tmp_path: Path) -> Fit:
    """Run a Tuner on the shared Ray; every option of Tune's is there for a test to change."""

    def fit(
        trainable: Any,
        space: dict[str, Any],
        *,
        callbacks: list[tune.Callback] | None = None,
        checkpoint: tune.CheckpointConfig | None = None,
        failure: tune.FailureConfig | None = None,
        stop: Any = None,
        name: str = "experiment",
        **tune_config: Any,
    ) -> tune.ResultGrid:
        run_config = tune.RunConfig(
            name=name,
            storage_path=str(tmp_path),
            verbose=0,
            callbacks=callbacks,
            checkpoint_config=checkpoint,
            failure_config=failure,
            stop=stop,
        )
        options: dict[str, Any] = {"metric": "loss", "mode": "min", "reuse_actors": True}
        tuner = tune.Tuner(
            trainable,
            param_space=space,
            tune_config=tune.TuneConfig(**(options | tune_config)),
            run_config=run_config,
        )
        return tuner.fit()

    return fit
