"""Translate a study to Ray Tune: search space, searcher, stoppers, Tuner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.tune.experiment import Trial

from zotune.core.names import CALLS_FOLDER
from zotune.core.settings import flat, for_tune, has_method, place, setting
from zotune.study.carrying import points_of
from zotune.study.chronicle import Chronicle
from zotune.study.launch import is_small, kept_checkpoints, launch_id
from zotune.study.model import Study
from zotune.study.past import Past
from zotune.study.points import Distribution, Point
from zotune.study.recalling import Listed, Suggested
from zotune.study.refining import RefinedGrid
from zotune.study.scheduling import scheduler
from zotune.study.spending import Books, Reserves, open_account
from zotune.study.studyfile import OPTUNA, PBT, RACE
from zotune.tune.trainables import ZOTrainable
from zotune.tune.trial_workers import bundles_of

if TYPE_CHECKING:  # Optuna is imported if a study uses it
    from zotune.study.searching import NewPoints

POPULATION_KEEPS = 4
"""Number of checkpoints per trial in PBT, from which other trials may continue."""
RETRIES = 3
"""Number of retries of a trial whose worker was killed."""


def param_space(study: Study) -> dict[str, Any]:
    """The search space; the points of grids and random searches are chosen by the study."""
    if _is_mixed(study):
        return place(study.config, {key: _any_of(study, key) for key in _race_keys(study)})
    domains = {
        key: axis.domain() if isinstance(axis, Distribution) else _choice(axis)
        for key, axis in study.axes.items()
    }
    if study.refines and study.tuning is not None:
        values = study.grid[study.tuning.over]
        domains[study.tuning.over] = tune.uniform(min(values), max(values))
    if study.search.algorithm != OPTUNA and any("replicate" in p for p in study.trials[:1]):
        domains["replicate"] = tune.randint(0, study.replicates)
    return place(study.config, domains)


def search(
    study: Study,
    folder: Path,
    carried: Mapping[str, str] | None = None,
    past: Mapping[str, Past] | None = None,
) -> Suggested | Listed:
    """Tune's generator of trials, for Optuna or for the points that the study has chosen.

    Args:
        study: the study.
        folder: the folder of the launch.
        carried: checkpoints from which trials start, by their identity.
        past: what is recorded of the launch's trials, if it is resumed.
    """
    past = past or {}
    if study.search.algorithm == OPTUNA:
        drawn = [one.point for one in past.values() if one.point is not None]
        return Suggested(folder, past, searcher(study, carried, drawn))
    if study.refines and study.tuning is not None:
        return RefinedGrid(folder, past, _points(study), study.tuning, study.claims)
    return Listed(folder, past, _points(study))


def searcher(
    study: Study,
    carried: Mapping[str, str] | None = None,
    drawn: Iterable[Mapping[str, Any]] = (),
) -> NewPoints:
    """Optuna; it suggests the points that were drawn before a kill, and those that are carried."""
    from zotune.study.searching import NewPoints

    first = [dict(flat(point, "/")) for point in drawn]
    in_order = dict(sorted((carried or {}).items()))
    first += [p for p in map(_slashed, points_of(study, in_order)) if p not in first]
    seed = study.seed % 2**32
    return NewPoints(seed=seed, metric="loss", mode="min", points_to_evaluate=first or None)


def _points(study: Study) -> list[Point]:
    """The points of all trials; where they differ in kind all have the keys of any of them."""
    if not _is_mixed(study):
        return study.trials
    keys = _race_keys(study)
    configs = (study.configuration(point).model_dump() for point in study.trials)
    return [{key: setting(config, key) for key in keys} for config in configs]


def _is_mixed(study: Study) -> bool:
    """Whether points may have different keys: in a race, which auto joins, or several spaces."""
    return study.search.algorithm == RACE or len(study.spaces) > 1


def _race_keys(study: Study) -> list[str]:
    """Settings in which such trials differ."""
    return list(dict.fromkeys(key for point in study.trials for key in point))


def _any_of(study: Study, key: str) -> Any:
    """A Tune domain with the values of a race's trials."""
    return _choice([point[key] for point in _points(study)])


def _choice(values: Sequence[Any]) -> Any:
    """A Tune domain of these values."""
    return tune.choice([for_tune(value) for value in values])


def _slashed(point: Point) -> dict[str, Any]:
    """A point with keys as Optuna needs them."""
    return {key.replace(".", "/"): value for key, value in point.items()}


class TargetLoss(tune.Stopper):
    """Ends a trial at a report whose loss is at most the target."""

    def __init__(self, target: float) -> None:
        self.target = target

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        """Whether the trial has reached the target."""
        return bool(result["loss"] <= self.target)

    def stop_all(self) -> bool:
        """False: other trials continue."""
        return False


class Plateau(tune.Stopper):
    """Ends a trial after a number of reports in a row without a new best loss.

    Reports that are repeated because a killed worker resumed from its checkpoint do not count.
    """

    def __init__(self, reports: int) -> None:
        self.reports = reports
        self._best: dict[str, float] = {}
        self._spent: defaultdict[str, int] = defaultdict(lambda: -1)
        self._idle: defaultdict[str, int] = defaultdict(int)

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        """Whether the number of reports without a new best loss is reached."""
        if result["spent"] <= self._spent[trial_id]:
            return False
        self._spent[trial_id] = result["spent"]
        best = float(result["best_loss"])
        improved = best < self._best.get(trial_id, float("inf"))
        self._best[trial_id] = min(best, self._best.get(trial_id, best))
        self._idle[trial_id] = 0 if improved else self._idle[trial_id] + 1
        return self._idle[trial_id] >= self.reports

    def stop_all(self) -> bool:
        """False: other trials continue."""
        return False


def stopper(study: Study, folder: Path, past: Mapping[str, Past] | None = None) -> tune.Stopper:
    """The stoppers of a study; the first charges every report to the account."""
    stoppers: list[tune.Stopper] = [Books(folder)]
    if study.stop.loss is not None:
        stoppers.append(TargetLoss(study.stop.loss))
    if study.stop.plateau is not None:
        plateau = Plateau(study.stop.plateau)
        for trial, one in (past or {}).items():
            for row in one.rows:
                plateau(trial, row)
        stoppers.append(plateau)
    return tune.stopper.CombinedStopper(*stoppers)


def trial_folder(trial: Trial) -> str:
    """The name of a trial's folder: its id and a readable label."""
    config = trial.config
    if has_method(config):
        return f"{trial.trial_id}_{config['method']}"
    return f"{trial.trial_id}_{config.get('estimator')}_q{config.get('q')}"


def bound_trainable(
    study: Study,
    trainable: Any = None,
    carried: Mapping[str, str] | None = None,
    shared: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> Any:
    """The trainable with the resources of a trial and all data that its workers need.

    These are checkpoints from which trials start, settings shared by all trials, and the folder of
    the launch.
    """
    shares = study.resources
    resources = partial(
        bundles_of,
        workers=shares.workers,
        trial={"cpu": shares.cpu, "gpu": shares.gpu},
        worker=shares.worker.model_dump(),
    )
    chosen = trainable or ZOTrainable
    told: dict[str, Any] = {"carried": dict(carried or {}), "shared": dict(shared or {})}
    told |= {"limited": study.total is not None, "most_seconds": study.stop.trial_seconds}
    told["tells_ends"] = study.refines
    if folder is not None:
        told |= {"calls": str(folder / CALLS_FOLDER), "keeps_end": is_small(study)}
    if any(told.values()):
        chosen = tune.with_parameters(chosen, **{k: value for k, value in told.items() if value})
    return tune.with_resources(chosen, resources)


def build_tuner(
    study: Study,
    *,
    storage_path: Path,
    name: str | None,
    callbacks: Sequence[tune.Callback],
    trainable: Any = None,
    carried: Mapping[str, str] | None = None,
    before: int = 0,
    past: Mapping[str, Past] | None = None,
    **tune_config: Any,
) -> tune.Tuner:
    """The unfitted Tuner of a study; see ``Study.tuner``.

    ``before`` is the part of the total that earlier launches, which this one continues, have spent;
    ``past`` what is recorded of the trials of this one, if it is resumed.
    """
    from zotune.callbacks import FailFast, PacedCheckpoints
    from zotune.callbacks.event_files import EventFiles

    name = name or launch_id()
    folder = (storage_path / study.name / name).absolute()
    open_account(folder, study.total, before)
    reserves = [] if study.total is None else [Reserves(folder, study.config, carried)]
    population = POPULATION_KEEPS if study.scheduler == PBT else 0
    kept = max(population, kept_checkpoints(study))
    space, bound = param_space(study), getattr(trainable, "bound", False)
    ours = trainable is None or bound  # else it may not take what we tell it
    if bound:
        del space["problem"]  # the trainable has its objective already
    options: dict[str, Any] = {
        "metric": "loss",
        "mode": "min",
        "num_samples": study.size,
        "search_alg": search(study, folder, carried, past),
        "scheduler": scheduler(study, folder, carried, past),
        "time_budget_s": study.stop.seconds,
        "reuse_actors": True,
        "trial_dirname_creator": trial_folder,
    }
    return tune.Tuner(
        bound_trainable(study, trainable, carried, folder=folder if ours else None),
        param_space=space,
        tune_config=tune.TuneConfig(**(options | tune_config)),
        run_config=tune.RunConfig(
            name=name,
            storage_path=str(folder.parent),
            verbose=0,
            callbacks=[
                *reserves,
                *callbacks,
                Chronicle(folder),
                PacedCheckpoints(),
                FailFast(),
                EventFiles(),
            ],
            stop=stopper(study, folder, past),
            checkpoint_config=tune.CheckpointConfig(num_to_keep=kept, checkpoint_at_end=True),
            failure_config=tune.FailureConfig(max_failures=RETRIES),
        ),
    )
