"""``PacedCheckpoints``: limit the rate of checkpoints by reports and by time."""

from __future__ import annotations

from time import monotonic
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT

from zotune.callbacks.records import ITERATION


class PacedCheckpoints(Callback):
    """Saves a trial at every second report, but not within half a second after it was saved last.

    Tune's ``checkpoint_frequency`` only counts reports, so a trial of a tenth of a second spends
    more time on checkpoints than on steps. After a kill, a worker repeats everything since its last
    checkpoint: two reports, or half a second. Use it without a ``checkpoint_frequency``, and with
    ``checkpoint_at_end``::

        tune.RunConfig(
            checkpoint_config=tune.CheckpointConfig(num_to_keep=2, checkpoint_at_end=True),
            callbacks=[zotune.callbacks.PacedCheckpoints()],
        )

    Args:
        reports: minimum number of reports between two checkpoints.
        seconds: minimum seconds between two checkpoints.
    """

    def __init__(self, *, reports: int = 2, seconds: float = 0.5) -> None:
        self._reports, self._seconds = reports, seconds
        self._last: dict[str, tuple[int, float]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The state for a restored Tuner, without times, which are valid in one process only."""
        return {**self.__dict__, "_last": {}}

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Start counting; a resumed trial has just been loaded."""
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
        # After a kill, a worker starts again at an earlier report.
        enough = report - last >= self._reports or report < last
        if enough and monotonic() - when >= self._seconds:
            result[SHOULD_CHECKPOINT] = True
            self._note(trial, report)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Remove the trial, and Tune's data for running averages, which is half of its memory."""
        self._last.pop(trial.trial_id, None)
        trial.run_metadata.metric_n_steps = {}

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Remove the trial."""
        self._last.pop(trial.trial_id, None)

    def _note(self, trial: Trial, report: int) -> None:
        self._last[trial.trial_id] = (report, monotonic())
