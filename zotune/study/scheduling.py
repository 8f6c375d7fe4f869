"""What stops trials early, by spent budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    MedianStoppingRule,
    TrialScheduler,
)

from zotune.core.settings import setting
from zotune.study.studyfile import ASHA, MEDIAN, NO_SCHEDULER, PBT, RACE
from zotune.study.totals import least, plan_of_race

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

    from zotune.study.model import Study

REDUCTION = 4
"""One in so many trials goes on at each of ASHA's rungs."""
MEDIAN_GRACE = 2
"""Reports that a trial makes before the median may stop it."""


def scheduler(
    study: Study, folder: Path, carried: Mapping[str, str] | None = None
) -> TrialScheduler | None:
    """The study's scheduler, within its total where it has one.

    Args:
        study: that names it.
        folder: of the launch.
        carried: checkpoints that trials begin at, by their identity.
    """
    from zotune.study.spending import Limited

    base = _base(study, folder)
    if study.total is None:
        return base
    base = base or FIFOScheduler()  # type: ignore[no-untyped-call]
    return Limited(base, folder, study.config, least=least(study), carried=carried)


def _base(study: Study, folder: Path) -> TrialScheduler | None:
    """What stops trials besides the total; one for each group of trials that are compared."""
    if study.search.algorithm == RACE:
        from zotune.study.race import Race

        return Race(folder, plan_of_race(study), study.size)
    if study.scheduler == PBT:
        from zotune.study.breeding import population

        return population(study, folder)
    if study.scheduler == NO_SCHEDULER:
        return None
    make = {ASHA: asha, MEDIAN: median}[study.scheduler]
    return Within(study.within, partial(make, study)) if study.within else make(study)


def asha(study: Study) -> ASHAScheduler:
    """Successive halving; its rungs lie on report points."""
    return ASHAScheduler(
        time_attr="spent",
        max_t=study.budget,
        grace_period=grace_period(study),
        reduction_factor=REDUCTION,
    )


def grace_period(study: Study) -> int:
    """ASHA's first rung: a report point that no step of any trial jumps over."""
    every = study.reports_at
    return min(study.budget, every * -(-study.largest_step // every))


def median(study: Study) -> MedianStoppingRule:
    """A trial ends where it is worse than the median of the others.

    It never yields to others while there are too few to compare with: that costs a checkpoint each.
    """
    return MedianStoppingRule(
        time_attr="spent",
        grace_period=MEDIAN_GRACE * study.reports_at,
        min_samples_required=3,
        min_time_slice=inf,  # type: ignore[arg-type]
    )


class Within(FIFOScheduler):
    """A scheduler for each group of trials that agree in some settings.

    A study that asks which q is best wants the best step of each q: compared with each other, all
    steps of a q that begins slowly would be stopped, and the q with them.

    Args:
        keys: settings by which trials are grouped, dotted where they are nested.
        make: makes a group's scheduler.
    """

    def __init__(self, keys: Sequence[str], make: Callable[[], TrialScheduler]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._keys = list(keys)
        self._make = make
        self._groups: dict[str, TrialScheduler] = {}
        self._search: dict[str, Any] = {}

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """What groups that are yet to come will be told."""
        self._search = {"metric": metric, "mode": mode, **spec}
        return True

    def of(self, trial: Trial) -> TrialScheduler:
        """The scheduler of a trial's group."""
        group = json.dumps([setting(trial.config, key) for key in self._keys], default=str)
        if group not in self._groups:
            self._groups[group] = self._make()
            self._groups[group].set_search_properties(**self._search)
        return self._groups[group]

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        """A trial joins its group."""
        self.of(trial).on_trial_add(tune_controller, trial)

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> str:
        """Its group decides."""
        return self.of(trial).on_trial_result(tune_controller, trial, result)

    def on_trial_complete(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> None:
        """Its last result counts in its group."""
        self.of(trial).on_trial_complete(tune_controller, trial, result)

    def on_trial_error(self, tune_controller: TuneController, trial: Trial) -> None:
        """Its group is told."""
        self.of(trial).on_trial_error(tune_controller, trial)

    def on_trial_remove(self, tune_controller: TuneController, trial: Trial) -> None:
        """Its group is told."""
        self.of(trial).on_trial_remove(tune_controller, trial)

    def debug_string(self) -> str:
        """Each group in its own words."""
        return "\n".join(f"{name}: {s.debug_string()}" for name, s in self._groups.items())
