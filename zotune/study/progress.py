"""The Tune callback that updates the display of a running study."""

from __future__ import annotations

from time import monotonic
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial

from zotune.study.live import REFRESH, current
from zotune.study.snapshot import OVER, Watch


class Progress(Callback):
    """Updates the display of this process with the progress of the trials, if there is one.

    ``zotune run`` adds it. It has no state that a restored Tuner would have to save.
    """

    _total = 0
    _last = 0.0
    _over = False
    _watch: Watch | None = None

    def setup(
        self,
        stop: Any = None,
        num_samples: int | None = None,
        total_num_samples: int | None = None,
        **info: Any,
    ) -> None:
        """Store the number of trials."""
        self._total, self._watch = total_num_samples or 0, Watch()

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Update the display, at most a few times per second."""
        # Newest first, because most older trials have ended.
        self._over = all(trial.status in OVER for trial in reversed(trials))
        if monotonic() - self._last >= REFRESH:
            self._show(trials)
            self._last = monotonic()

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Update the display a last time, unless interrupted: trials then only appear ended."""
        if self._over:
            self._show(trials)

    def _show(self, trials: list[Trial]) -> None:
        display = current.get()
        if display is not None:
            self._watch = self._watch or Watch()
            display.show(self._watch.look(trials, self._total))
