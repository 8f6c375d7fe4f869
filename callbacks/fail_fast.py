"""``FailFast``: end trials whose objective raises, but retry those whose worker was killed."""

from __future__ import annotations

from typing import Any

from ray.exceptions import RayActorError, RayTaskError
from ray.tune import Callback, TuneError
from ray.tune.experiment import Trial


class FailFast(Callback):
    """Ends a trial at its first exception from user code; killed workers are still retried.

    Tune's ``max_failures`` does not distinguish the two and retries a broken objective repeatedly.
    Add this callback in addition to a ``FailureConfig(max_failures=…)``::

        tune.RunConfig(
            failure_config=tune.FailureConfig(max_failures=3),
            callbacks=[zotune.callbacks.FailFast()],
        )
    """

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Change the class of every trial before its worker can fail."""
        for trial in trials:
            if type(trial) is Trial:
                trial.__class__ = _JudgingTrial


class _JudgingTrial(Trial):
    """A trial that is not retried after an exception from user code."""

    def handle_error(self, exc: TuneError | RayTaskError | RayActorError | None = None) -> None:
        """Count the failure; one of user code uses up all retries."""
        restoring = self.is_restoring
        super().handle_error(exc)
        if _is_user_error(exc) and not restoring:
            self.max_failures = max(self.max_failures, 0)
            self.run_metadata.num_failures = self.max_failures + 1


def _is_user_error(exc: Exception | None) -> bool:
    """Whether a worker raised, in its set-up or later, rather than died."""
    if isinstance(exc, RayActorError):
        return exc.actor_init_failed
    return isinstance(exc, RayTaskError) and not isinstance(exc.cause, RayActorError)
