"""A grid whose tuned setting gets further values before the study ends.

When all trials of the grid have ended, ``zotune.claims.refinement`` says which values are missing
beside the best ones; these are run as further trials of the same launch, until none is missing.
The search is a function of the trials' ends, so that a resumed launch goes on as it would have.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.search.basic_variant import BasicVariantGenerator

from zotune.claims import Claim, Finals, Tuning, refinement
from zotune.core.names import ENDS_KEY, LOSSES_KEY, LOST_KEY, MINIMUM_KEY
from zotune.core.settings import for_tune, place
from zotune.study.points import Point

START = "start_loss"


class RefinedGrid(BasicVariantGenerator):
    """Tune's generator for a list of points, and for those that the claims need in addition."""

    def __init__(self, points: Sequence[Point], tuning: Tuning, claims: Sequence[Claim]) -> None:
        super().__init__(points_to_evaluate=[nested(point) for point in points])
        self._points = list(points)
        self._tuning, self._claims = tuning, list(claims)
        self._ended: dict[int, Finals] = {}

    def next_trial(self) -> Trial | None:
        """The next trial; None while the ends of others are awaited, or if there is none."""
        if self.is_finished():
            return None
        trial = self._next()
        if trial is None and not self._live_trials and (more := self._missing()):
            self._append(more)
            trial = self._next()
        elif trial is None:
            self._finished = not self._live_trials
        return trial

    def _next(self) -> Trial | None:
        """The next trial of the list; None at its end, where Tune's generator says it is done."""
        found: Trial | None = super().next_trial()  # type: ignore[no-untyped-call]
        self._finished = False
        return found

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Keep how a trial ended."""
        super().on_trial_complete(trial_id, result, error)
        at, row = int(trial_id.rpartition("_")[2]), result or {}
        if not error and (told := row.get(ENDS_KEY)):
            ends = json.loads(told)
            self._ended[at] = Finals(
                self._points[at],
                ends[LOSSES_KEY],
                ends[MINIMUM_KEY],
                diverged=ends[LOST_KEY],
                start=row.get(START),
            )

    def _missing(self) -> list[Point]:
        """Points that the claims need and that were not run; none if a trial has failed."""
        if len(self._ended) < len(self._points):
            return []
        ended = [self._ended[at] for at in range(len(self._points))]
        return refinement(ended, self._tuning, self._claims)

    def _append(self, points: Sequence[Point]) -> None:
        """Add points behind those that were run, with the next numbers."""
        self._points += points
        self._iterators[0].points_to_evaluate += [nested(point) for point in points]
        self._total_samples += len(points)
        self._trial_generator: Any = chain(*self._iterators)
        self._trial_iter = None


def nested(point: Point) -> dict[str, Any]:
    """A point as Tune takes it."""
    return place({}, {key: for_tune(value) for key, value in point.items()})
