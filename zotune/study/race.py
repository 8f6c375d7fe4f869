"""A race as Ray Tune runs it: trials pause at a rung until all have come to it."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from zotune.core.names import DIVERGED
from zotune.study.racing import Plan, survivors
from zotune.study.spending import account_of


class Race(FIFOScheduler):
    """Successive halving that waits for everybody, so that the faster worker decides nothing.

    The losses at the rungs are kept with what was spent. A resumed race decides from them as
    before, whatever Tune has forgotten.

    Args:
        folder: of the launch.
        plan: the rungs.
        racers: how many trials there will be.
    """

    def __init__(self, folder: Path, plan: Plan, racers: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.folder, self.plan, self.racers = folder, plan, racers
        self._stage = 0
        self._racing: list[str] | None = None
        """Ids of the trials that are left; all of them at first."""

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Pause a trial that has come to the rung."""
        if self._stage == len(self.plan.rungs) or result["spent"] < self.plan.rungs[self._stage]:
            return TrialScheduler.CONTINUE
        account_of(self.folder).rung(trial.trial_id, self._stage, float(result["loss"]))
        return TrialScheduler.PAUSE

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Decide where all have come to the rung; let those that go on run."""
        while (losses := self._losses(tune_controller)) is not None:
            self._decide(tune_controller, losses)
        trials = tune_controller.get_trials()
        for trial in trials:
            if trial.status == Trial.PENDING and self._waits(trial):
                tune_controller._set_trial_status(trial, Trial.PAUSED)
        ready = (t for t in trials if t.status == Trial.PAUSED and not self._waits(t))
        return next(ready, None)

    def _losses(self, controller: Any) -> dict[str, float] | None:
        """The losses of all that are left, once each has come to the rung and stands still."""
        if self._stage == len(self.plan.rungs):
            return None
        trials = {trial.trial_id: trial for trial in controller.get_trials()}
        if len(trials) < self.racers:
            return None
        left = trials if self._racing is None else {name: trials[name] for name in self._racing}
        losses = {name: self._loss(trial) for name, trial in left.items()}
        known = {name: loss for name, loss in losses.items() if loss is not None}
        still = all(t.status not in (Trial.RUNNING, Trial.PENDING) for t in left.values())
        return known if still and len(known) == len(left) else None

    def _loss(self, trial: Trial) -> float | None:
        """The loss at the rung; of a trial that has ended its last one, the worst if it failed."""
        kept = account_of(self.folder).of(trial.trial_id).rungs
        if self._stage in kept:
            return kept[self._stage]
        if trial.status not in (Trial.TERMINATED, Trial.ERROR):
            return None
        last: Mapping[str, Any] = trial.last_result or {}
        ended_well = trial.status != Trial.ERROR and last.get("status") != DIVERGED
        return float(last["loss"]) if ended_well and last.get("loss") is not None else inf

    def _waits(self, trial: Trial) -> bool:
        """Whether a trial has come to the rung and others have not."""
        return self._stage in account_of(self.folder).of(trial.trial_id).rungs

    def _decide(self, controller: Any, losses: Mapping[str, float]) -> None:
        self._racing = survivors(losses, self.plan.kept(self._stage))
        self._stage += 1
        for trial in controller.get_trials():
            if trial.trial_id in losses and trial.trial_id not in self._racing:
                controller.stop_trial(trial)
