"""Checkpoints of trials, neither so many that they cost more than the trials nor too few."""

from __future__ import annotations

from time import monotonic
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT

from zotune.callbacks.records import ITERATION


class PacedCheckpoints(Callback):
    """Saves a trial at every second report, but not within half a second after it was saved last.

    Tune's ``checkpoint_frequency`` counts reports alone: a trial that takes a tenth of a second
    spends more time on its checkpoints than on its steps. A killed worker repeats what it did since
    its last checkpoint: two reports, or those of half a second. Use it without a
    ``checkpoint_frequency``, and with ``checkpoint_at_end``::

        tune.RunConfig(
            checkpoint_config=tune.CheckpointConfig(num_to_keep=2, checkpoint_at_end=True),
            callbacks=[zotune.callbacks.PacedCheckpoints()],
        )

    Args:
        reports: between two checkpoints, at least.
        seconds: between two checkpoints, at least.
    """

    def __init__(self, *, reports: int = 2, seconds: float = 0.5) -> None:
        self._reports, self._seconds = reports, seconds
        self._last: dict[str, tuple[int, float]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What a restored Tuner needs: clocks of another process mean nothing."""
        return {**self.__dict__, "_last": {}}

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Count from here; a trial that is continued has just been loaded."""
        self._note(trial, (trial.last_result or {}).get(ITERATION, 0))

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        """Ask for a checkpoint if one is due."""
        report = result.get(ITERATION, 0)
        last, when = self._last.setdefault(trial.trial_id, (report, monotonic()))
        # A worker that was killed begins again at an earlier report.
        enough = report - last >= self._reports or report < last
        if enough and monotonic() - when >= self._seconds:
            result[SHOULD_CHECKPOINT] = True
            self._note(trial, report)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Forget the trial, and what Tune keeps only to go on averaging: half of its memory."""
        self._last.pop(trial.trial_id, None)
        trial.run_metadata.metric_n_steps = {}

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Forget the trial."""
        self._last.pop(trial.trial_id, None)

    def _note(self, trial: Trial, report: int) -> None:
        self._last[trial.trial_id] = (report, monotonic())
