"""The trials of a launch, with ids that follow from its name, and those that it has had already.

A resumed launch makes its trials anew, in the same order, and each takes up what is recorded of it:
one that has ended comes back with its result and is not run again.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.experiment.config_parser import _create_trial_from_spec
from ray.tune.search.basic_variant import BasicVariantGenerator
from ray.tune.search.search_generator import SearchGenerator
from ray.tune.search.variant_generator import format_vars

from zotune.core.account import POINT
from zotune.core.settings import flat, for_tune, place
from zotune.study.past import FAILED, Past, give_back, ids_of
from zotune.study.points import Point
from zotune.study.spending import account_of, repeated_of

if TYPE_CHECKING:  # Optuna is imported if a study uses it
    from zotune.study.searching import NewPoints


class Listed(BasicVariantGenerator):
    """Tune's generator of known points.

    Args:
        folder: the folder of the launch.
        past: what is recorded of its trials.
        points: the points of all trials.
    """

    def __init__(self, folder: Path, past: Mapping[str, Past], points: Sequence[Point]) -> None:
        super().__init__(points_to_evaluate=[nested(point) for point in points])
        self._uuid_prefix = ids_of(folder.name)
        self.folder, self.past = folder, dict(past)

    def next_trial(self) -> Trial | None:
        """The next trial, as it was left."""
        trial: Trial | None = super().next_trial()  # type: ignore[no-untyped-call]
        if trial is not None and trial.trial_id in self.past:
            give_back(
                trial,
                self.past[trial.trial_id],
                self.folder,
                repeated_of(self.folder, trial.trial_id),
            )
        return trial

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "past": {}}

    def get_state(self) -> Any:
        """The state for Tune's snapshot, without what is recorded elsewhere."""
        state = super().get_state()  # type: ignore[no-untyped-call]
        return {**state, "past": {}} if state else state


class Suggested(SearchGenerator):
    """Tune's generator for a searcher; points are recorded before their trials begin.

    The searcher is told the results of trials that have ended, and asked for new points afterwards.

    Args:
        folder: the folder of the launch.
        past: what is recorded of its trials.
        searcher: the searcher, which suggests the recorded points first.
    """

    def __init__(self, folder: Path, past: Mapping[str, Past], searcher: NewPoints) -> None:
        super().__init__(searcher)
        self.folder, self.points = folder, searcher
        self.past = {trial: one for trial, one in past.items() if one.point is not None}

    def create_trial_if_possible(self, experiment_spec: dict[str, Any]) -> Trial | None:
        """The next trial: as it was left, or of a new point."""
        trial_id = f"{ids_of(self.folder.name)}{self._counter:05d}"
        past = self.past.get(trial_id)
        point = self.points.suggest(trial_id) if past is None else self._recalled(trial_id, past)
        if not point:
            return None
        if past is None:
            account_of(self.folder).note(trial_id, **{POINT: point})
        self._counter += 1
        spec = copy.deepcopy(experiment_spec)
        spec["config"] = _merged(spec["config"], point)
        trial: Trial = _create_trial_from_spec(
            spec,
            self._parser,
            evaluated_params=dict(flat(point, "/")),
            experiment_tag=f"{self._counter}_{format_vars(dict(flat(point, '/')))}",
            trial_id=trial_id,
        )
        if past is not None:
            give_back(trial, past, self.folder, repeated_of(self.folder, trial.trial_id))
        return trial

    def _recalled(self, trial_id: str, past: Past) -> dict[str, Any]:
        """The recorded point; the searcher has it, and its result if there is one."""
        self.points.recall(trial_id)
        if past.over:
            self.points.on_trial_complete(trial_id, past.last, error=past.over == FAILED)
        return dict(past.point or {})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "past": {}}


def nested(point: Point) -> dict[str, Any]:
    """A point as Tune takes it."""
    return place({}, {key: for_tune(value) for key, value in point.items()})


def _merged(config: Any, point: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the point's values in place of the search space."""
    merged = dict(config)
    for key, value in point.items():
        inner = merged.get(key)
        nested = isinstance(value, Mapping) and isinstance(inner, Mapping)
        merged[key] = _merged(inner, value) if nested else value
    return merged
