"""Schedulers that stop trials early, by spent budget."""

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
    from zotune.study.past import Past

REDUCTION = 4
"""ASHA's reduction factor: 1 of this many trials continues at each rung."""
MEDIAN_GRACE = 2
"""Number of reports before the median rule may stop a trial."""


def scheduler(
    study: Study,
    folder: Path,
    carried: Mapping[str, str] | None = None,
    past: Mapping[str, Past] | None = None,
) -> TrialScheduler | None:
    """The study's scheduler, limited by its total budget if it has one.

    Args:
        study: the study.
        folder: the folder of the launch.
        carried: checkpoints from which trials start, by their identity.
        past: what is recorded of the launch's trials, if it is resumed.
    """
    from zotune.study.spending import Limited

    base = _base(study, folder, past or {})
    if study.total is None:
        return base
    base = base or FIFOScheduler()  # type: ignore[no-untyped-call]
    return Limited(base, folder, study.config, least=least(study), carried=carried)


def _base(study: Study, folder: Path, past: Mapping[str, Past]) -> TrialScheduler | None:
    """The scheduler without the total; one for each group if ``within`` is set."""
    if study.search.algorithm == RACE:
        from zotune.study.race import Race

        return Race(folder, plan_of_race(study), study.size)
    if study.scheduler == PBT:
        from zotune.study.breeding import population

        return population(study, folder)
    if study.scheduler == NO_SCHEDULER:
        return None
    make = {ASHA: asha, MEDIAN: median}[study.scheduler]
    made = partial(make, study, past)
    return Within(study.within, made) if study.within else made()


class Asha(ASHAScheduler):
    """Tune's ASHA, which knows the reports of a launch before it was resumed."""

    def __init__(self, past: Mapping[str, Past], **options: Any) -> None:
        super().__init__(**options)
        self._past = dict(past)

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        """Add the trial, and what it has reached at the rungs."""
        super().on_trial_add(tune_controller, trial)
        for row in _rows_of(self._past.pop(trial.trial_id, None)):
            super().on_trial_result(tune_controller, trial, row)


class Median(MedianStoppingRule):
    """Tune's median rule, which knows the reports of a launch before it was resumed."""

    def __init__(self, past: Mapping[str, Past], **options: Any) -> None:
        super().__init__(**options)
        self._past = dict(past)

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        """Add the trial and its results."""
        super().on_trial_add(tune_controller, trial)
        if rows := _rows_of(self._past.pop(trial.trial_id, None)):  # Tune expects no empty list
            self._results[trial] = rows


def _rows_of(past: Past | None) -> list[dict[str, Any]]:
    """The reports of a trial in order, without those that it has repeated after a kill."""
    found: dict[int, dict[str, Any]] = {}
    for row in past.rows if past is not None else ():
        found.setdefault(int(row["spent"]), row)
    return [found[spent] for spent in sorted(found)]


def asha(study: Study, past: Mapping[str, Past]) -> ASHAScheduler:
    """Successive halving; its rungs lie on report points."""
    return Asha(
        past,
        time_attr="spent",
        max_t=study.budget,
        grace_period=grace_period(study),
        reduction_factor=REDUCTION,
    )


def grace_period(study: Study) -> int:
    """ASHA's first rung: a report point that no step of any trial jumps over."""
    every = study.reports_at
    return min(study.budget, every * -(-study.largest_step // every))


def median(study: Study, past: Mapping[str, Past]) -> MedianStoppingRule:
    """The median rule: stop a trial that is worse than the median of the others.

    Trials are never paused while there are too few to compare with, as each pause costs a
    checkpoint.
    """
    return Median(
        past,
        time_attr="spent",
        grace_period=MEDIAN_GRACE * study.reports_at,
        min_samples_required=3,
        min_time_slice=inf,
    )


class Within(FIFOScheduler):
    """A scheduler for each group of trials that have some settings in common.

    To find the best q, a study needs the best step size for each q. Without groups, a q that starts
    slowly would be stopped with all of its step sizes.

    Args:
        keys: dotted names of the settings by which trials are grouped.
        make: creates the scheduler of a group.
    """

    def __init__(self, keys: Sequence[str], make: Callable[[], TrialScheduler]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._keys = list(keys)
        self._make = make
        self._groups: dict[str, TrialScheduler] = {}
        self._search: dict[str, Any] = {}

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Store the properties for groups that are created later."""
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
        """Add the trial to its group."""
        self.of(trial).on_trial_add(tune_controller, trial)

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> str:
        """Delegate to its group."""
        return self.of(trial).on_trial_result(tune_controller, trial, result)

    def on_trial_complete(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> None:
        """Delegate to its group."""
        self.of(trial).on_trial_complete(tune_controller, trial, result)

    def on_trial_error(self, tune_controller: TuneController, trial: Trial) -> None:
        """Delegate to its group."""
        self.of(trial).on_trial_error(tune_controller, trial)

    def on_trial_remove(self, tune_controller: TuneController, trial: Trial) -> None:
        """Delegate to its group."""
        self.of(trial).on_trial_remove(tune_controller, trial)

    def debug_string(self) -> str:
        """The debug strings of all groups."""
        return "\n".join(f"{name}: {s.debug_string()}" for name, s in self._groups.items())
