"""Population-based training over spent budget: weak trials continue from strong ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ray.tune.experiment import Trial
from ray.tune.schedulers import PopulationBasedTraining

from zotune.core.names import CHARGED
from zotune.core.settings import PROBLEM
from zotune.study.points import RANGES, WHOLE, Distribution
from zotune.study.spending import account_of

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

    from zotune.study.model import Study

INTERVAL = 2
"""Reports between two changes of the population."""


class Population(PopulationBasedTraining):
    """Tune's PBT, synchronous, seeded by the study, and with moves recorded in the account.

    Args:
        folder: the folder of the launch.
        seed: the seed of random choices.
        options: options of Tune's ``PopulationBasedTraining``.
    """

    def __init__(self, folder: Path, seed: int, **options: Any) -> None:
        super().__init__(**options)
        self.folder, self.seed = folder, seed

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> str:
        """As in Tune, with random choices from our seed."""
        with _seeded([self.seed % 2**32, self._num_perturbations]):
            return str(super().on_trial_result(tune_controller, trial, result))

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """As in Tune, which would wait for ever if the trials that it waits for have ended."""
        found: Trial | None = super().choose_trial_to_run(tune_controller)
        live = tune_controller.get_live_trials()  # type: ignore[no-untyped-call]
        if found is None and live and all(trial.status == Trial.PAUSED for trial in live):
            reached = max(self._trial_state[trial].last_train_time for trial in live)
            self._next_perturbation_sync = reached + self._perturbation_interval
            found = super().choose_trial_to_run(tune_controller)
        return found

    def _exploit(
        self, tune_controller: TuneController, trial: Trial, trial_to_clone: Trial
    ) -> None:
        """Record the position from which the trial continues; budget spent from there is new."""
        super()._exploit(tune_controller, trial, trial_to_clone)
        saved = trial.latest_checkpoint_result
        if saved is not None and saved.checkpoint is not None:
            at = int((saved.metrics or {}).get(CHARGED, 0))
            changed = {"config": trial.config, "source": saved.checkpoint.path}
            account_of(self.folder).move(trial.trial_id, at, **changed)


def population(study: Study, folder: Path) -> Population:
    """Tune's PBT for a study: every searched setting may change within its range."""
    axes = {key: axis for key, axis in study.axes.items() if not key.startswith(PROBLEM)}
    return Population(
        folder,
        study.seed,
        time_attr="spent",
        perturbation_interval=INTERVAL * study.reports_at,
        hyperparam_mutations={key: _mutations(axis) for key, axis in axes.items()},
        custom_explore_fn=_Within(axes),
        log_config=False,
        synch=True,
    )


def _mutations(axis: Any) -> Any:
    """Tune's mutation of a setting: the next value of a list, or a factor for a range."""
    if isinstance(axis, Distribution):
        return axis.domain() if axis.kind in RANGES else list(axis.values)
    return axis


class _Within:
    """Clips perturbed settings to the ranges of the study."""

    def __init__(self, axes: Mapping[str, Any]) -> None:
        self.ranges = {
            key: axis
            for key, axis in axes.items()
            if isinstance(axis, Distribution) and axis.kind in RANGES
        }

    def __call__(self, config: dict[str, Any]) -> dict[str, Any]:
        for key, axis in self.ranges.items():
            low, high = axis.values
            value = min(max(config[key], low), high)
            config[key] = round(value) if axis.kind in WHOLE else float(value)
        return config


@contextmanager
def _seeded(seed: list[int]) -> Iterator[None]:
    """Seed Python's and NumPy's global generators within the context, and restore them."""
    before = random.getstate(), np.random.get_state()
    random.seed(str(seed))
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
