"""A grid whose tuned setting gets further values before the study ends.

When all trials of the grid have ended, ``zotune.claims.refinement`` says which values are missing
beside the best ones; these are run as further trials of the same launch, until none is missing.
The search is a function of the trials' ends, so that a resumed launch, which knows the ends of
earlier trials from its records, goes on as it would have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial

from zotune.claims import Claim, Finals, Tuning, refinement
from zotune.core.names import ENDS_KEY, LOSSES_KEY, LOST_KEY, MINIMUM_KEY
from zotune.study.past import FAILED, Past
from zotune.study.points import Point
from zotune.study.recalling import Listed, nested

START = "start_loss"


class RefinedGrid(Listed):
    """Tune's generator for a list of points, and for those that the claims need in addition.

    Args:
        folder: the folder of the launch.
        past: what is recorded of its trials.
        points: the points of the grid.
        tuning: which setting is tuned, and how.
        claims: the claims that are to be judged.
    """

    def __init__(
        self,
        folder: Path,
        past: Mapping[str, Past],
        points: Sequence[Point],
        tuning: Tuning,
        claims: Sequence[Claim],
    ) -> None:
        super().__init__(folder, past, points)
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
        found = super().next_trial()
        self._finished = False
        if found is not None and (past := self.past.get(found.trial_id)) and past.over:
            self.on_trial_complete(found.trial_id, past.last, error=past.over == FAILED)
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
