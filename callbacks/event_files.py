"""Tune's event files for TensorBoard, if TensorBoard is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ray.tune.logger import TBXLoggerCallback

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


class EventFiles(TBXLoggerCallback):
    """Replaces Tune's own logger, whose import of torch delays every start by seconds."""

    def __init__(self) -> None:
        self._read = find_spec("tensorboard") is not None
        if self._read:
            super().__init__()  # type: ignore[no-untyped-call]

    def log_trial_start(self, trial: Trial) -> None:
        """Open the trial's file."""
        if self._read:
            super().log_trial_start(trial)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Write down the numbers of a row."""
        if self._read:
            super().log_trial_result(iteration, trial, result)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Close the trial's file."""
        if self._read:
            super().log_trial_end(trial, failed)
