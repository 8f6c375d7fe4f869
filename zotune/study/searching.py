"""Optuna's search without duplicate points."""

from __future__ import annotations

from typing import Any

from ray.tune.search.optuna import OptunaSearch

from zotune.study.quiet import quiet_optuna

SPARE = 50
"""Number of duplicates in a row, in addition to one per trial, after which to stop resampling."""


class NewPoints(OptunaSearch):
    """Optuna, which resamples duplicates of earlier points as long as the space has others.

    A duplicate would be the same run with the same random numbers. A launch that continues another
    one gets the old points first and then restarts from the same seed: it repeats the old draws,
    skips them as duplicates, and continues with new ones.
    """

    _used_up = False

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Begin the search, without Optuna's log message."""
        with quiet_optuna():
            return super().set_search_properties(metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """A point that no trial has had; any point if none was found."""
        point = None if self._used_up else self._new(trial_id) or self._new_anywhere(trial_id)
        self._used_up = point is None
        return point or super().suggest(trial_id)

    def recall(self, trial_id: str) -> None:
        """Take up a trial of an interrupted launch; its point is the next of the initial ones."""
        super().suggest(trial_id)

    def _new(self, trial_id: str) -> dict[str, Any] | None:
        """The first draw that is not a duplicate; None if there were too many duplicates."""
        for _ in range(len(self._ot_trials) + SPARE):
            point = super().suggest(trial_id)
            if not self._is_copy(trial_id):
                return point
            self._pass_over(trial_id)
        return None

    def _new_anywhere(self, trial_id: str) -> dict[str, Any] | None:
        """The same with a random sampler, which does not concentrate on one point."""
        from optuna.samplers import RandomSampler

        usual = self._study.sampler
        self._study.sampler = RandomSampler(seed=((self._seed or 0) + len(self._ot_trials)) % 2**32)
        try:
            return self._new(trial_id)
        finally:
            self._study.sampler = usual

    def _is_copy(self, trial_id: str) -> bool:
        asked = self._ot_trials[trial_id]
        earlier = self._study.get_trials(deepcopy=False)[: asked.number]
        return any(trial.params == asked.params for trial in earlier)

    def _pass_over(self, trial_id: str) -> None:
        from optuna.trial import TrialState

        self._study.tell(self._ot_trials.pop(trial_id), state=TrialState.FAIL)

    @property
    def _study(self) -> Any:
        return self._ot_study
