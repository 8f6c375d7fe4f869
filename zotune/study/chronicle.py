"""The callback that records checkpoints and ends of trials in the account of a launch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.experiment import Trial

from zotune.core.account import OVER, SAVED
from zotune.core.names import CHARGED, CURVE_KEY, ENDING_FOLDER
from zotune.study.past import FAILED, FINISHED, give_ending
from zotune.study.spending import account_of


class Chronicle(tune.Callback):
    """Records what a resumed launch has to know besides reports, before Tune continues.

    It comes after the callbacks that record curves: what it says has ended is whole.

    Args:
        folder: the folder of the launch.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        """Record that a scheduler or a stopper ends the trial at this report."""
        if result.get("done"):
            self._over(trial, FINISHED)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Record the end of a trial, also of one that was paused."""
        self._over(trial, FINISHED)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Record that a trial has failed, and why."""
        file = trial.error_file
        why = Path(file).read_text(encoding="utf-8") if file and Path(file).is_file() else ""
        self._over(trial, FAILED, error=why)

    def on_trial_recover(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Let a trial whose worker died after its last report start at its end."""
        if account_of(self.folder).of(trial.trial_id).over == FINISHED:
            give_ending(trial, dict(trial.last_result))

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Record a checkpoint, which is whole now."""
        saved = trial.latest_checkpoint_result
        if saved is None or saved.checkpoint is None or CHARGED not in (saved.metrics or {}):
            return
        place = Path(saved.checkpoint.path)
        position = int(saved.metrics[CHARGED])
        account_of(self.folder).note(trial.trial_id, **{SAVED: place.name, "position": position})
        if saved.metrics.get("done"):
            shutil.rmtree(place.parent / ENDING_FOLDER, ignore_errors=True)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Drop the curve from the row of a trial that had ended before the launch was resumed."""
        for trial in trials:
            (trial.last_result or {}).pop(CURVE_KEY, None)

    def _over(self, trial: Trial, how: str, **facts: Any) -> None:
        account = account_of(self.folder)
        if account.of(trial.trial_id).over != how:
            account.note(trial.trial_id, **{OVER: how, **facts})
