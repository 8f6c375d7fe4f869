"""A Tuner on the shared Ray."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from ray.tune.search.basic_variant import BasicVariantGenerator

from tests.conftest import QUIET

__all__ = ["QUIET", "Fit"]

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
        # one after the other: each process of a trial takes seconds of imports
        options["search_alg"] = BasicVariantGenerator(random_state=0, max_concurrent=1)
        tuner = tune.Tuner(
            trainable,
            param_space=space,
            tune_config=tune.TuneConfig(**(options | tune_config)),
            run_config=run_config,
        )
        return tuner.fit()

    return fit
