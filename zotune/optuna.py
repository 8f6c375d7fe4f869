"""``ZotuneSampler``: zotune's search as a sampler of Optuna. Needs the package ``optuna``."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from datetime import datetime
from threading import Lock
from typing import Any

try:
    from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.search_space import IntersectionSearchSpace
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"zotune.optuna needs the package optuna, got {error}; install zotune[optuna]"
    ) from None

from zotune.errors import ConfigError
from zotune.runs.minimizer import Minimizer
from zotune.runs.parameters import Parameter

logger = logging.getLogger("zotune")

POINT = "zotune:point"
"""Attribute of a trial: the names of the searched parameters, and the id of its point."""
LOST = {
    "parallel": "all points of the current batch are being evaluated, and a sampler cannot wait: "
    "trial {} is random, and its value is not used; give fewer n_jobs, or use zotune.Minimizer",
    "done": "the budget of {} trials is spent, and further trials are random; give a larger budget",
}


class ZotuneSampler(BaseSampler):
    """Samples floats and integers by zotune's methods; other parameters at random.

    The first trial with a finite value is the start: random, or one of ``study.enqueue_trial``.
    Later trials are the points of ``Minimizer(start, budget=…, bounds=…, **settings)``, where a
    coordinate is a parameter or, if ``log``, its logarithm; steps and integers are rounded. Failed
    and pruned trials reject their points. Everything is kept in the study's storage, so that a
    study that is loaded again continues. With ``n_jobs`` above the number of points of a batch,
    which is often one, the other trials are random and their values are not used.

    Args:
        budget: the number of trials, with the first.
        seed: of the random parameters and trials.
        settings: as for ``zotune.Minimizer``; without any, the method is chosen automatically.

    >>> import optuna, zotune
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=zotune.optuna.ZotuneSampler(budget=40, seed=0))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", -5, 5) - 2) ** 2, n_trials=40)
    >>> abs(study.best_params["x"] - 2) < 1e-3
    True
    """

    def __init__(self, *, budget: int, seed: int | None = None, **settings: Any) -> None:
        if "bounds" in settings:
            raise ConfigError("ZotuneSampler takes no bounds: they are those of the parameters")
        self._budget, self._settings = budget, settings
        self._random = RandomSampler(seed=seed)
        self._spaces = IntersectionSearchSpace()
        self._minimizers: dict[tuple[str, ...], Minimizer] = {}
        self._warned: set[str] = set()
        self._set_out()

    def _set_out(self) -> None:
        self._lock, self._began = Lock(), datetime.now()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._set_out()

    def reseed_rng(self) -> None:
        """Draw other random parameters, as in another process."""
        self._random.reseed_rng()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Floats and integers that all complete trials have."""
        if len(study.directions) > 1:
            raise ConfigError(
                f"ZotuneSampler has one objective, got {len(study.directions)}; combine them"
            )
        space = self._spaces.calculate(study)
        numbers = (FloatDistribution, IntDistribution)
        return {k: d for k, d in space.items() if isinstance(d, numbers) and not d.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The parameters of the next point; none, so that they are random, if there is none."""
        parameters = {name: parameter_of(name, one) for name, one in search_space.items()}
        if not parameters:
            return {}
        with self._lock:
            minimizer = self._told(study, parameters)
            if minimizer is None:
                return {}
            if minimizer.done:
                return self._lost("done", self._budget)
            batch, taken = minimizer.ask(), self._out(study, trial, parameters)
            free = [(i, x) for i, x in zip(batch.ids, batch, strict=True) if i not in taken]
            if not free:
                return self._lost("parallel", trial.number)
            point, x = free[0]
            told: Any = {"names": list(parameters), "id": point}
            study._storage.set_trial_system_attr(trial._trial_id, POINT, told)
        return {p.name: p.value(float(z)) for p, z in zip(parameters.values(), x, strict=True)}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A random value, for categories and for trials without a point."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def _told(self, study: Study, parameters: Mapping[str, Parameter]) -> Minimizer | None:
        """The search with the values of all trials so far; None before its start."""
        names = tuple(parameters)
        trials = study.get_trials(deepcopy=False)
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        minimizer = self._minimizers.pop(names, None)
        if minimizer is None:
            start = start_of(trials, parameters)
            if start is None:
                return None
            x0 = [p.coordinate(start.params[name]) for name, p in parameters.items()]
            bounds = [p.low for p in parameters.values()], [p.high for p in parameters.values()]
            minimizer = Minimizer(x0, budget=self._budget, bounds=bounds, **self._settings)
            minimizer.tell([value_of(start, sign)], minimizer.ask().ids[:1])
        values = {
            point: value_of(t, sign)
            for t in reversed(trials)
            if t.state.is_finished() and (point := point_of(t, names)) is not None
        }
        while not minimizer.done:
            known = [i for i in minimizer.ask().ids if i in values]
            if not known:
                break
            minimizer.tell([values[i] for i in known], known)
        self._minimizers[names] = minimizer
        return minimizer

    def _out(
        self, study: Study, trial: FrozenTrial, parameters: Mapping[str, Parameter]
    ) -> set[Any]:
        """Points of running trials, but for those of a process that has ended before this one."""
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        since = [t for t in running if t.datetime_start and t.datetime_start >= self._began]
        return {point_of(t, tuple(parameters)) for t in since if t.number != trial.number}

    def _lost(self, kind: str, told: int) -> dict[str, Any]:
        """No parameters, so that they are random; says so once."""
        if kind not in self._warned:
            self._warned.add(kind)
            logger.warning(LOST[kind].format(told))
        return {}


def parameter_of(name: str, distribution: Any) -> Parameter:
    """A parameter with the bounds, transform and steps of a distribution."""
    whole = isinstance(distribution, IntDistribution)
    low, high, log = distribution.low, distribution.high, distribution.log
    return Parameter(name, low, high, log=log, step=distribution.step, origin=low, whole=whole)


def start_of(trials: list[FrozenTrial], parameters: Mapping[str, Parameter]) -> FrozenTrial | None:
    """The first trial that was complete, of those with these parameters and a finite value."""

    def is_inside(told: Mapping[str, Any]) -> bool:
        return all(n in told and p.least <= told[n] <= p.most for n, p in parameters.items())

    whole = [t for t in trials if math.isfinite(value_of(t, 1.0)) and is_inside(t.params)]
    return min(whole, key=lambda t: (t.datetime_complete, t.number), default=None)


def value_of(trial: FrozenTrial, sign: float) -> float:
    """What a finished trial says to the search: inf if it has failed or was pruned."""
    if trial.state != TrialState.COMPLETE or trial.value is None:
        return math.inf
    return sign * trial.value


def point_of(trial: FrozenTrial, names: tuple[str, ...]) -> int | None:
    """The point of a trial in the search over these parameters; None without one."""
    told = trial.system_attrs.get(POINT)
    return int(told["id"]) if told and tuple(told["names"]) == names else None
