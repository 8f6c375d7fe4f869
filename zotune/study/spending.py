"""A study's total as Ray Tune obeys it: every report is booked, every trial asks before it goes on.

Tune asks four things in turn. A stopper sees every report first and books it. The scheduler decides
whether a trial goes on, and it does only if what it spends next can be reserved. A callback
reserves for trials that start. Trials that are waiting when nothing is left for them are ended
before they start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from zotune.config import Config
from zotune.core.account import Account
from zotune.core.names import ACCOUNT_FILE, CHARGED, CHARGED_BEFORE, LOOKED
from zotune.study.reserving import (
    identity_of,
    is_reserved,
    reserve_next,
    settings_of,
    step_cost,
    takes_rest,
    upto,
)
from zotune.tune.grants import grant, join

_OPEN: dict[str, Account] = {}
"""The accounts of this process, by the ids of their launches."""


def open_account(folder: Path, limit: int | None = None, before: int = 0) -> Account:
    """The account of a launch as its file has it."""
    account = _OPEN[folder.name] = Account(folder / ACCOUNT_FILE)
    account.set_limit(limit, before)
    return account


def account_of(folder: Path) -> Account:
    """The account of a launch, one for all that book in it."""
    return _OPEN.get(folder.name) or Account(folder / ACCOUNT_FILE)


class Books(tune.Stopper):
    """Books every report of every trial, and ends the study when nothing more can begin."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        """Book a report."""
        if CHARGED in result:  # a trainable of the user's may have other rows
            account_of(self.folder).report(
                trial_id, result[CHARGED_BEFORE], result[CHARGED], result[LOOKED]
            )
        return False

    def stop_all(self) -> bool:
        """Whether trials are left that no longer fit, and none runs."""
        return account_of(self.folder).closed


class Reserves(tune.Callback):
    """Reserves what a trial spends before its first report, whenever its worker starts.

    Args:
        folder: of the launch.
        shared: settings that all trials share.
        carried: checkpoints that trials begin at, by their identity.
    """

    def __init__(
        self, folder: Path, shared: Mapping[str, Any], carried: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.shared, self.carried = folder, dict(shared), dict(carried or {})

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Reserve up to its next report, from where it begins."""
        config = settings_of(self.shared, trial.config)
        account, position = account_of(self.folder), starts_at(trial, config, self.carried)
        account.begin(trial.trial_id, position)
        reserve_next(account, trial.trial_id, config, position, fresh=True)
        _tell(account, trial)


def starts_at(trial: Trial, config: Config, carried: Mapping[str, str]) -> int:
    """Where a trial begins or goes on: at its checkpoint, at a carried one, or at 0."""
    saved = trial.latest_checkpoint_result
    if saved is not None and saved.metrics:
        return int(saved.metrics.get(CHARGED, 0))
    before = carried.get(config.identity)
    if before is None:
        return 0
    from zotune.runs.checkpoint import charged_in  # with torch, which few drivers need

    return charged_in(Path(before))


def experiment_of(trial: Trial) -> str:
    """The experiment's name, as its workers know it."""
    return str(trial.experiment_dir_name)


def _tell(account: Account, trial: Trial) -> None:
    """Tell the worker where to end, if that is before its next report, and what to go on from."""
    entry = account.of(trial.trial_id)
    if entry.last:
        grant(experiment_of(trial), trial.trial_id, entry.may_reach)
    if entry.joins is not None:
        join(experiment_of(trial), trial.trial_id, *entry.joins)


class Limited(FIFOScheduler):
    """A scheduler whose trials go on only if what they spend next is left of the total.

    Args:
        base: decides everything else.
        folder: of the launch.
        shared: settings that all trials share.
        least: what the cheapest trial spends before its first report.
        carried: checkpoints that trials begin at, by their identity.
    """

    def __init__(
        self,
        base: TrialScheduler,
        folder: Path,
        shared: Mapping[str, Any],
        *,
        least: int,
        carried: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.base, self.folder, self.least = base, folder, least
        self.shared, self.carried = dict(shared), dict(carried or {})

    @property
    def account(self) -> Account:
        """What was spent and reserved."""
        return account_of(self.folder)

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """The base is told."""
        return self.base.set_search_properties(metric, mode, **spec)

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Note the trial, or know it again after its driver was killed."""
        others = [other.trial_id for other in tune_controller.get_trials()]
        self.account.add_trial(trial.trial_id, identity_of(self._config(trial)), others)
        self.base.on_trial_add(tune_controller, trial)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """The base decides; a trial that is to go on reserves first, or ends."""
        decision = self.base.on_trial_result(tune_controller, trial, result)
        if decision != TrialScheduler.CONTINUE:
            return decision
        if not reserve_next(self.account, trial.trial_id, self._config(trial), result[CHARGED]):
            return TrialScheduler.STOP
        _tell(self.account, trial)
        return decision

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """End waiting trials for which nothing is left; the base chooses among the others."""
        waiting = [t for t in tune_controller.get_trials() if t.status == Trial.PENDING]
        for trial in waiting:
            if not self._fits(trial):
                self._leave_out(tune_controller, trial)
        chosen = self.base.choose_trial_to_run(tune_controller)
        if chosen is not None and chosen.status == Trial.PAUSED and not self._fits(chosen):
            tune_controller.stop_trial(chosen)
            chosen = None
        self._close(tune_controller)
        return chosen

    def _fits(self, trial: Trial) -> bool:
        """Whether a trial can spend something up to its next report."""
        config, entry = self._config(trial), self.account.of(trial.trial_id)
        position = starts_at(trial, config, self.carried)
        if is_reserved(entry, config, position):
            return True
        new = upto(config, position, fresh=True) - max(position, entry.may_reach)
        left = self.account.left or 0
        if not entry.begun or not takes_rest(config):
            return new <= left
        return new <= left or left >= step_cost(config) * config.replicates

    def _leave_out(self, controller: Any, trial: Trial) -> None:
        """End a trial that waits; no run is opened for it in MLflow."""
        inner: Any = getattr(controller, "_tune_controller", controller)
        any_trial: Any = trial
        any_trial.init_local_path()  # results name a folder for every trial
        self.base.on_trial_remove(controller, trial)
        inner.search_alg.on_trial_complete(trial.trial_id)
        inner._schedule_trial_stop(trial)
        inner._live_trials.discard(trial)

    def _close(self, controller: Any) -> None:
        """Search for no more trials where not even the cheapest one fits."""
        if (self.account.left or 0) >= self.least:
            return
        live = [t for t in controller.get_trials() if not t.is_finished()]
        self.account.closed = not live
        if not live:
            controller.search_alg.set_finished()

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """What the trial has reserved is left for others."""
        self.account.release(trial.trial_id)
        self.base.on_trial_complete(tune_controller, trial, result)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """A trial that is retried keeps its reservation: it may have spent of it."""
        self.base.on_trial_error(tune_controller, trial)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """What the trial has reserved is left for others."""
        self.account.release(trial.trial_id)
        self.base.on_trial_remove(tune_controller, trial)

    def debug_string(self) -> str:
        """The base in its own words."""
        return self.base.debug_string()

    def _config(self, trial: Trial) -> Config:
        return settings_of(self.shared, trial.config)
