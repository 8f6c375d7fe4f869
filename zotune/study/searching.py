"""Optuna's search without points that were tried before."""

from __future__ import annotations

from typing import Any

from ray.tune.search.optuna import OptunaSearch

from zotune.study.quiet import quiet_optuna

SPARE = 50
"""Copies in a row, beyond one for each trial so far, after which a sampler is given up."""


class NewPoints(OptunaSearch):
    """Optuna, with copies of earlier points drawn again while the space has others.

    A copy would be the same run with the same randomness, and tell nothing. A launch that goes on
    from another is told the old points first, and then draws from its seed anew: it meets its old
    draws, passes over them, and comes to those that follow.
    """

    _used_up = False

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Begin the search, without the line that Optuna prints."""
        with quiet_optuna():
            return super().set_search_properties(metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """A point that no trial had; any point once none was found."""
        point = None if self._used_up else self._new(trial_id) or self._new_anywhere(trial_id)
        self._used_up = point is None
        return point or super().suggest(trial_id)

    def _new(self, trial_id: str) -> dict[str, Any] | None:
        """The first draw that is no copy."""
        for _ in range(len(self._ot_trials) + SPARE):
            point = super().suggest(trial_id)
            if not self._is_copy(trial_id):
                return point
            self._pass_over(trial_id)
        return None

    def _new_anywhere(self, trial_id: str) -> dict[str, Any] | None:
        """The same by a sampler that learns nothing, and so keeps to no point."""
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
