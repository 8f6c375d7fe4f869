"""Enforce a study's total budget in Ray Tune: charge every report, and reserve before continuing.

A stopper sees every report first and charges it to the account. The scheduler lets a trial continue
only if the budget up to its next report can be reserved. A callback makes the reservation for
trials that start. Waiting trials for which no budget is left are ended before they start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from zotune.config import Config
from zotune.core.account import OVER, ROW, Account
from zotune.core.calls import calls_of
from zotune.core.names import (
    ACCOUNT_FILE,
    AGAIN,
    CALLED,
    CALLED_BEFORE,
    CALLS_FOLDER,
    CHARGED,
    CHARGED_BEFORE,
    CURVE_KEY,
    LOOKED,
    LOOKED_BEFORE,
    REPEATED,
)
from zotune.study.past import FINISHED
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
"""The open accounts of this process, by launch id."""


def open_account(folder: Path, limit: int | None = None, before: int = 0) -> Account:
    """Open the account of a launch from its file."""
    account = _OPEN[folder.name] = Account(folder / ACCOUNT_FILE)
    account.set_limit(limit, before)
    return account


def account_of(folder: Path) -> Account:
    """The account of a launch, shared within this process."""
    return _OPEN.get(folder.name) or Account(folder / ACCOUNT_FILE)


def repeated_of(folder: Path, trial: str) -> int:
    """What a trial of a launch has repeated after kills."""
    calls = calls_of(folder / CALLS_FOLDER, trial)
    return account_of(folder).of(trial).repeated_of(calls)


class Books(tune.Stopper):
    """A stopper that charges every report, and ends the study when no trial can start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        """Charge a report, and record its row; that of a trial's end makes it ended."""
        if CHARGED in result:  # other trainables may have other rows
            ended = {OVER: FINISHED} if result.get("done") else {}
            left = {"config"} if ended else {"config", CURVE_KEY}
            row = {key: value for key, value in result.items() if key not in left}
            account_of(self.folder).report(
                trial_id,
                result[CHARGED_BEFORE],
                result[CHARGED],
                result[LOOKED] - result[LOOKED_BEFORE],
                result[CALLED] - result[CALLED_BEFORE],
                result[AGAIN],
                **{ROW: row, **ended},
            )
            again = repeated_of(self.folder, trial_id)
            if (again or result[AGAIN]) and isinstance(result, dict):
                result[REPEATED] = again
        return False

    def stop_all(self) -> bool:
        """Whether the account is closed: no trial runs, and the rest covers none."""
        return account_of(self.folder).closed


class Reserves(tune.Callback):
    """A callback that reserves the budget up to a trial's next report when its worker starts.

    Args:
        folder: the folder of the launch.
        shared: settings that all trials share.
        carried: checkpoints from which trials start, by their identity.
    """

    def __init__(
        self, folder: Path, shared: Mapping[str, Any], carried: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.shared, self.carried = folder, dict(shared), dict(carried or {})

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Reserve the budget from its start to its next report."""
        config = settings_of(self.shared, trial.config)
        account, position = account_of(self.folder), starts_at(trial, config, self.carried)
        account.begin(trial.trial_id, position)
        reserve_next(account, trial.trial_id, config, position, fresh=True)
        _tell(account, trial)


def starts_at(trial: Trial, config: Config, carried: Mapping[str, str]) -> int:
    """The position from which a trial starts: its checkpoint's, a carried one's, or 0."""
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
    """Tell the worker where to end, if before its next report, and from which point to continue."""
    entry = account.of(trial.trial_id)
    if entry.last:
        grant(experiment_of(trial), trial.trial_id, entry.may_reach)
    if entry.joins is not None:
        join(experiment_of(trial), trial.trial_id, *entry.joins)


class Limited(FIFOScheduler):
    """A scheduler whose trials continue only if the total covers their next report.

    Args:
        base: the scheduler for all other decisions.
        folder: the folder of the launch.
        shared: settings that all trials share.
        least: cost of the cheapest trial up to its first report.
        carried: checkpoints from which trials start, by their identity.
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
        """The account of the launch."""
        return account_of(self.folder)

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Delegate to the base."""
        return self.base.set_search_properties(metric, mode, **spec)

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Add the trial to the account, or recognise it after the driver was killed."""
        others = [other.trial_id for other in tune_controller.get_trials()]
        self.account.add_trial(trial.trial_id, identity_of(self._config(trial)), others)
        self.base.on_trial_add(tune_controller, trial)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Delegate to the base; a trial that is to continue must reserve first, or ends."""
        decision = self.base.on_trial_result(tune_controller, trial, result)
        if decision != TrialScheduler.CONTINUE:
            return decision
        if not reserve_next(self.account, trial.trial_id, self._config(trial), result[CHARGED]):
            return TrialScheduler.STOP
        _tell(self.account, trial)
        return decision

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """End waiting trials that the rest does not cover; the base chooses among the others."""
        waiting = [t for t in tune_controller.get_trials() if t.status == Trial.PENDING]
        for trial in waiting:
            if self._fits(trial):
                continue
            if self.account.of(trial.trial_id).begun:  # before a kill
                tune_controller.stop_trial(trial)
            else:
                self._leave_out(tune_controller, trial)
        chosen = self.base.choose_trial_to_run(tune_controller)
        if chosen is not None and chosen.status == Trial.PAUSED and not self._fits(chosen):
            tune_controller.stop_trial(chosen)
            chosen = None
        self._close(tune_controller)
        return chosen

    def _fits(self, trial: Trial) -> bool:
        """Whether the rest of the total covers a step of the trial."""
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
        """End a waiting trial; it gets no run in MLflow."""
        inner: Any = getattr(controller, "_tune_controller", controller)
        any_trial: Any = trial
        any_trial.init_local_path()  # results need a folder for every trial
        self.base.on_trial_remove(controller, trial)
        inner.search_alg.on_trial_complete(trial.trial_id)
        inner._schedule_trial_stop(trial)
        inner._live_trials.discard(trial)

    def _close(self, controller: Any) -> None:
        """End the search if the rest does not cover even the cheapest trial."""
        if (self.account.left or 0) >= self.least:
            return
        live = [t for t in controller.get_trials() if not t.is_finished()]
        self.account.closed = not live
        if not live:
            controller.search_alg.set_finished()

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Release the trial's reservation."""
        self.account.release(trial.trial_id)
        self.base.on_trial_complete(tune_controller, trial, result)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """A trial that is retried keeps its reservation, of which it may have spent a part."""
        self.base.on_trial_error(tune_controller, trial)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """Release the trial's reservation."""
        self.account.release(trial.trial_id)
        self.base.on_trial_remove(tune_controller, trial)

    def debug_string(self) -> str:
        """The debug string of the base."""
        return self.base.debug_string()

    def _config(self, trial: Trial) -> Config:
        return settings_of(self.shared, trial.config)
