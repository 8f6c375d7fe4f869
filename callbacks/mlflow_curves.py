"""``MLflowCurves``: log curves against spent budget to MLflow, each point exactly once."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from ray.tune import Callback
from ray.tune.experiment import Trial

from zotune.callbacks.curve_points import points_for
from zotune.callbacks.machine_load import wants_metrics
from zotune.callbacks.records import FAILED, FINISHED, KILLED, clean_key
from zotune.callbacks.script_settings import script_settings
from zotune.callbacks.session import Session, files_of, open_session, place_of
from zotune.callbacks.stores import (
    EXPERIMENT,
    resolve_uri,
    with_credentials,
    without_credentials,
)
from zotune.callbacks.tuner_arguments import tuner_aim, tuner_constants
from zotune.core.aim import checked
from zotune.core.grid import GRID_POINTS
from zotune.core.names import CURVE_KEY
from zotune.errors import ConfigError
from zotune.tune.curve_requests import ask_for_curves, stop_asking

logger = logging.getLogger("zotune")
Hook = TypeVar("Hook", bound=Callable[..., None])


def _harmless(hook: Hook) -> Hook:
    """Log the first error in a hook, and let the study continue."""

    @wraps(hook)
    def safe(self: MLflowCurves, *args: Any, **kwargs: Any) -> None:
        try:
            hook(self, *args, **kwargs)
        except Exception as error:
            if not self._complained:
                said = without_credentials(f"{type(error).__name__}: {error}")
                logger.warning(f"MLflow: curves are not being recorded: {said}")
            self._complained = True

    return safe  # type: ignore[return-value]


class MLflowCurves(Callback):
    """Logs every trial of a Tuner to MLflow, with the spent budget as the step of its curve.

    There is one run per trial with the configuration as params, and one summary run per launch.
    Points are written to disk and synced before Tune continues, and a child process delivers them.
    If the store is unreachable, the study continues; a message at the end says what was not
    delivered, and ``zotune sync`` delivers it. Works with any trainable that reports
    ``timesteps_total``; zotune's own also send the points between two reports.

    Args:
        tracking_uri: sqlite, an http(s) server or another database; default:
            ``MLFLOW_TRACKING_URI``, else ``mlflow.db`` in this folder. Credentials are never
            stored: a restored Tuner takes them from the environment.
        experiment: the experiment in MLflow; default: that of the active run, else of
            ``mlflow.set_experiment``, else ``MLFLOW_EXPERIMENT_NAME``, else the name of the study
            or of Tune's experiment.
        metric: what decides which trial is the best, has diverged, and comes first on the page;
            default: the metric of the Tuner, its searcher or its scheduler, else ``loss``.
        mode: ``min`` or ``max``; given together with ``metric``.
        points: maximum number of points of a curve in the store, at least 2; default: 320, or fewer
            if there are more than 75 trials, 41 from 301 on. It applies to zotune's trainables;
            of others, every row is stored.
        nested: show the trials below the summary run; MLflow's charts then hide them at first.
        study: text of the study file, stored with the summary.
        question: the question of the study, for the summary.
        tags: tags of every run.
        system_metrics: record the load of this machine (CPU, memory, disk, network, GPUs) with the
            summary run; needs psutil. Default: ``MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING``.
        wait: seconds that the end of the experiment waits for a delivery without progress; it does
            not wait for a store that has never answered.
        spool: folder of points to be delivered; default: in the experiment's folder, or if that
            is not on this machine in the folder ``ZOTUNE_SPOOL``, else ``./zotune-spool``.
    """

    def __init__(
        self,
        tracking_uri: str | os.PathLike[str] | None = None,
        experiment: str | None = None,
        *,
        metric: str | None = None,
        mode: str | None = None,
        points: int | None = None,
        nested: bool = False,
        study: str | None = None,
        question: str | None = None,
        tags: Mapping[str, str] | None = None,
        system_metrics: bool | None = None,
        wait: float = 60.0,
        spool: str | os.PathLike[str] | None = None,
    ) -> None:
        if experiment is not None and not isinstance(experiment, str):
            raise ConfigError(f"experiment must be a name, got {experiment!r}")
        if points is not None and (type(points) is not int or not 2 <= points <= GRID_POINTS):
            raise ConfigError(f"points must be a number from 2 to {GRID_POINTS}, got {points!r}")
        self._uri = resolve_uri(tracking_uri)
        self._aim, self._points = checked(metric, mode), points
        self._about: dict[str, Any] = {
            "tracking_uri": without_credentials(self._uri),
            "experiment": experiment,
            "nested": nested,
            "study": study,
            "question": question,
            "tags": dict(tags or {}),
            "system_metrics": wants_metrics(system_metrics),
        }
        self._wait = wait
        self._folder = None if spool is None else str(Path(spool).absolute())
        self._session: Session | None = None
        self._expected: list[str] = []
        self._complained = self._told_files = False
        self._launch = self._about

    def __getstate__(self) -> dict[str, Any]:
        """The state for a restored Tuner, without credentials, open files and processes."""
        kept = {"about": self._about, "wait": self._wait, "folder": self._folder}
        return kept | {"aim": self._aim, "points": self._points}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._about, self._wait, self._folder = state["about"], state["wait"], state["folder"]
        self._aim, self._points = state["aim"], state["points"]
        self._uri = with_credentials(self._about["tracking_uri"])
        self._session, self._expected = None, []
        self._complained = self._told_files = False
        self._launch = self._about

    def __deepcopy__(self, memo: dict[int, Any]) -> MLflowCurves:
        """A copy, which within this process keeps the credentials."""
        copied = type(self).__new__(type(self))
        copied.__setstate__(self.__getstate__())
        copied._uri, copied._expected = self._uri, self._expected
        return copied

    @_harmless
    def setup(
        self,
        stop: Any = None,
        num_samples: int | None = None,
        total_num_samples: int | None = None,
        **info: Any,
    ) -> None:
        """Reset, as Tune may use a callback for several fits, and find the Tuner's metric."""
        self._session = None
        self._complained = False
        self._told_files = False
        self._launch = dict(self._about)
        metric, mode = self._aim or tuner_aim() or (None, None)
        self._launch |= {"metric": metric and clean_key(metric), "mode": mode}
        self._launch["constants"] = tuner_constants()
        self._launch["points"] = self._points or points_for(total_num_samples)
        used = script_settings(self._uri, self._about["experiment"])
        named = self._about["experiment"] or used.experiment or os.environ.get(EXPERIMENT)
        self._launch |= {"experiment": named, "parent": used.parent}
        for problem in used.problems:
            logger.warning(f"MLflow: {problem}")

    @_harmless
    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Restart the deliverer if it has died."""
        if self._session is not None:
            self._session.look()

    @_harmless
    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Request curve points from its worker, and record the trial and its configuration."""
        ask_for_curves(place_of(trial)[1])
        session = self._opened(trials)
        session.write(session.journal.start(trial))

    @_harmless
    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        """Record the points of a result, and remove them from the row for later callbacks."""
        curve = result.pop(CURVE_KEY, None)
        session = self._opened(trials)
        if new := session.journal.not_taken(trial, result):
            said = ", ".join(f"{key} ({kind})" for key, kind in new.items())
            logger.warning(f"MLflow: {said}: no numbers, and not recorded")
        session.write(session.journal.result(trial, result, curve))

    @_harmless
    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Record that the trial has ended, by itself or stopped by Tune."""
        session = self._opened(trials)
        session.write(session.journal.end(trial, FINISHED))
        if not self._told_files and (files := files_of(trial)):
            self._told_files = True
            logger.warning(f"MLflow: files of trials are not recorded: {', '.join(files)}")

    @_harmless
    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Record that the trial has failed, and why."""
        session = self._opened(trials)
        session.write(session.journal.end(trial, FAILED))

    @_harmless
    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Record the end of trials that are still open, and wait for the delivery."""
        for name in {place_of(trial)[1] for trial in trials}:
            stop_asking(name)
        if not trials:
            return
        session, self._session = self._opened(trials), None
        for trial in trials:
            if session.journal.is_open(trial):
                status = FAILED if trial.status == Trial.ERROR else KILLED
                session.write(session.journal.last_points(trial))
                session.write(session.journal.end(trial, status))
        session.end_or_wait(self._wait)

    def expect(self, trials: Iterable[str]) -> None:
        """Name trials of a resumed launch that Tune will make again, so none of them is lost."""
        self._expected = [*trials]

    def _opened(self, trials: list[Trial]) -> Session:
        if self._session is None:
            self._session = open_session(
                trials, self._uri, self._launch, self._folder, expected=self._expected
            )
            self._session.look()
        return self._session
