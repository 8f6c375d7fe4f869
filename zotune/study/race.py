"""The scheduler of a race: trials pause at a rung until all have reached it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from zotune.core.files import written_whole
from zotune.core.names import BEST_POINT_FILE, CHARGED, DIVERGED, STATE_FILE
from zotune.study.racing import AUTO_SETTINGS, RacePlan, survivors, with_head_start
from zotune.study.spending import account_of


class Race(FIFOScheduler):
    """Synchronous successive halving: decisions do not depend on the speed of trials.

    The losses at the rungs are stored in the account, so that a resumed race makes the same
    decisions even if Tune has lost its state. The winner continues from the best point of all
    trials, which is copied first.

    Args:
        folder: the folder of the launch.
        plan: the rungs.
        racers: the number of trials.
    """

    def __init__(self, folder: Path, plan: RacePlan, racers: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.folder, self.plan, self.racers = folder, plan, racers
        self._stage = 0
        self._racing: list[str] | None = None
        """Ids of the trials that are still in the race; None: all."""

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Pause a trial that has reached its rung."""
        rung = self._rung(trial)
        if self._stage == len(self.plan.rungs) or result["spent"] < self.plan.rungs[rung]:
            return TrialScheduler.CONTINUE
        losses = self._judged(trial, result), float(result["best_loss"])
        account_of(self.folder).rung(trial.trial_id, rung, *losses)
        return TrialScheduler.PAUSE

    def _rung(self, trial: Trial) -> int:
        """The next rung of a trial; for ``auto`` always the final one."""
        return self._stage if self.plan.final is None or not _is_auto(trial) else self.plan.final

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Make the decision once all have reached the rung, then run the survivors."""
        while (losses := self._losses(tune_controller)) is not None:
            self._decide(tune_controller, losses)
        trials = tune_controller.get_trials()
        for trial in trials:
            if trial.status == Trial.PENDING and self._waits(trial):
                tune_controller._set_trial_status(trial, Trial.PAUSED)
        ready = (t for t in trials if t.status == Trial.PAUSED and not self._waits(t))
        return next(ready, None)

    def _losses(self, controller: Any) -> dict[str, float] | None:
        """The losses of all remaining trials once each has reached the rung; None before."""
        if self._stage == len(self.plan.rungs):
            return None
        trials = {trial.trial_id: trial for trial in controller.get_trials()}
        if len(trials) < self.racers:
            return None
        left = {name: t for name, t in trials.items() if self._is_judged(t)}
        losses = {name: self._loss(trial) for name, trial in left.items()}
        known = {name: loss for name, loss in losses.items() if loss is not None}
        still = all(t.status not in (Trial.RUNNING, Trial.PENDING) for t in left.values())
        return known if still and len(known) == len(left) else None

    def _is_judged(self, trial: Trial) -> bool:
        """Whether a trial is among those that are compared at this rung."""
        if self.plan.final is not None and _is_auto(trial):
            return self._stage == self.plan.final
        return self._racing is None or trial.trial_id in self._racing

    def _loss(self, trial: Trial) -> float | None:
        """The loss at the rung; for a trial that has ended its last loss; infinite if it failed."""
        kept = account_of(self.folder).of(trial.trial_id).rungs
        if self._stage in kept:
            return kept[self._stage]
        if trial.status not in (Trial.TERMINATED, Trial.ERROR):
            return None
        last: Mapping[str, Any] = trial.last_result or {}
        ended_well = trial.status != Trial.ERROR and last.get("status") != DIVERGED
        return self._judged(trial, last) if ended_well and last.get("loss") is not None else inf

    def _judged(self, trial: Trial, row: Mapping[str, Any]) -> float:
        """The loss by which a trial is compared."""
        loss = float(row["loss"])
        if self.plan.final is None or not _is_auto(trial):
            return loss
        return with_head_start(loss, float(row["start_loss"]))

    def _waits(self, trial: Trial) -> bool:
        """Whether a trial has reached its rung and others have not."""
        ahead = self._stage < len(self.plan.rungs)
        return ahead and self._rung(trial) in account_of(self.folder).of(trial.trial_id).rungs

    def _decide(self, controller: Any, losses: Mapping[str, float]) -> None:
        self._racing = survivors(losses, self.plan.kept(self._stage))
        self._stage += 1
        trials = controller.get_trials()
        if self._stage == len(self.plan.rungs):
            (winner,) = (trial for trial in trials if trial.trial_id in self._racing)
            self._send_to_best_point(winner, trials)
        for trial in trials:
            if trial.trial_id in losses and trial.trial_id not in self._racing:
                controller.stop_trial(trial)

    def _send_to_best_point(self, winner: Trial, trials: Iterable[Trial]) -> None:
        """Let the winner continue from the point with the lowest loss of any trial."""
        account = account_of(self.folder)
        if account.of(winner.trial_id).joins is not None:
            return  # decided before a crash
        lowest = survivors({t.trial_id: account.of(t.trial_id).best for t in trials}, 1)
        (donor,) = (trial for trial in trials if trial.trial_id == lowest[0])
        file, saved = self.folder / BEST_POINT_FILE, winner.latest_checkpoint_result
        if donor is winner or saved is None or not _copied(donor, file):
            return
        account.join(winner.trial_id, int((saved.metrics or {})[CHARGED]), str(file))


def _is_auto(trial: Trial) -> bool:
    """Whether a trial is the automatic descent."""
    return all(trial.config.get(key) == value for key, value in AUTO_SETTINGS.items())


def _copied(trial: Trial, file: Path) -> bool:
    """Copy a trial's newest state to a file atomically; False if it has none."""
    saved = trial.latest_checkpoint_result
    if saved is None or saved.checkpoint is None:
        return False
    with Path(saved.checkpoint.path, STATE_FILE).open("rb") as state, written_whole(file) as kept:
        shutil.copyfileobj(state, kept)
    return True
