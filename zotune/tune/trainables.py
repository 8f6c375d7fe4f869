"""``ZOTrainable``, the adapter to Ray Tune, and ``trainable``, which binds it to an objective."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from ray import tune
from ray.tune.result import DONE, SHOULD_CHECKPOINT, TIMESTEPS_TOTAL

from zotune._lazy import LazyModule
from zotune.config import Config, parse_config
from zotune.core.calls import Calls
from zotune.core.clock import timed
from zotune.core.names import (
    CALLED,
    CALLED_BEFORE,
    CHARGED,
    CHARGED_BEFORE,
    CURVE_KEY,
    ENDING_FOLDER,
    GAMMA_KEY,
    LOOKED,
    LOOKED_BEFORE,
    LOSSES_KEY,
    MINIMUM_KEY,
    OUT_OF_TIME,
    RUNNING,
    STATE_FILE,
)
from zotune.objectives import (
    AnyObjective,
    Objective,
    build_any_problem,
    complete_problem,
    problem_mapping,
)
from zotune.objectives.callables import CallableObjective
from zotune.runs.plugin_entries import Plugins, adopt_plugins, plugin_entries
from zotune.tune.curve_requests import curves_wanted
from zotune.tune.grants import granted, joins
from zotune.tune.trial_workers import TrialWorkers, bundles_for

if TYPE_CHECKING:
    import torch

    from zotune import loop as loops
    from zotune.core.state import State
    from zotune.loop import joining
    from zotune.runs import checkpoint as checkpoints
    from zotune.runs import sources, stopping
    from zotune.runs import workers as run_workers
else:  # imported late: a driver only names the class; its workers need torch
    torch = LazyModule("torch")
    loops = LazyModule("zotune.loop")
    joining = LazyModule("zotune.loop.joining")
    checkpoints = LazyModule("zotune.runs.checkpoint")
    sources = LazyModule("zotune.runs.sources")
    stopping = LazyModule("zotune.runs.stopping")
    run_workers = LazyModule("zotune.runs.workers")


class ZOTrainable(tune.Trainable):
    """A zeroth-order run as a Ray Tune trainable.

    The configuration has the settings that ``zotune list`` shows: problem, estimator, q, step, …
    A ``step()`` runs to the next multiple of ``report_every`` in spent budget and reports at the
    first zeroth-order step at or past it; the trial ends when its budget is spent. Rows have
    ``timesteps_total`` = spent, so that loggers and schedulers count queries.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}
    """Settings that a trial's configuration may leave out."""

    _loop: loops.Loop
    _state: State | None
    _charged: int
    _joined: int
    _counted: tuple[int, int]
    _seconds: float

    def setup(
        self,
        config: dict[str, Any],
        source: sources.Source | None = None,
        data: Any = None,
        carried: Mapping[str, str] | None = None,
        own: Plugins | None = None,
        shared: Mapping[str, Any] | None = None,
        limited: bool = False,
        most_seconds: float | None = None,
        calls: str | None = None,
        keeps_end: bool = False,
    ) -> None:
        """Build the objective and the loop; invalid settings raise before anything is evaluated.

        ``carried`` holds checkpoints from which trials start, by their identity; ``own`` the
        registry entries of the driver; ``shared`` the settings of a resumed launch, as defaults of
        its trials. ``limited`` says that the driver limits the budget; ``most_seconds`` is the
        wall time after which a trial ends as if its budget was spent. ``calls`` is a folder in
        which calls of the function are counted; ``keeps_end`` says to write the state of a trial
        that ends before it is reported.
        """
        adopt_plugins(own or {})
        self._source = source
        self._data = data
        self._carried = carried or {}
        self._shared = shared or {}
        self._limited = limited
        self._most_seconds = inf if most_seconds is None else most_seconds
        self._calls, self._keeps_end = calls, keeps_end
        self._built: tuple[str, AnyObjective] | None = None
        self._workers = TrialWorkers(self.trial_resources)
        self._begin(config)

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory | None:
        """One CPU, and one for each worker; None if there are no workers."""
        workers = int({**cls.defaults, **config}.get("workers", 0))
        return bundles_for(workers) if workers else None

    def cleanup(self) -> None:
        """End the trial's workers."""
        self._workers.close()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Start over with another configuration; drops all state of the last trial."""
        self._last_result = None
        self._begin(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Run to the next report and return its row."""
        loop = self._loop
        state, row = self._advanced()
        before, self._charged = self._charged, loop.charged(state)
        self._state = state
        if row["status"] == RUNNING and self._seconds >= self._most_seconds:
            row["status"] = OUT_OF_TIME
        ended = row["status"] != RUNNING
        row |= loop.facts(state)
        (called, looked), self._counted = self._counted, (loop.called(state), loop.looked(state))
        row |= {CHARGED: self._charged, CALLED: self._counted[0], LOOKED: self._counted[1]}
        row |= {CHARGED_BEFORE: before, CALLED_BEFORE: called, LOOKED_BEFORE: looked}
        row["seconds"] = round(self._seconds, 3)
        row |= {TIMESTEPS_TOTAL: row["spent"], DONE: ended, SHOULD_CHECKPOINT: ended}
        if self._sends_curve():
            row[CURVE_KEY] = self._new_points(state, row["status"])
        if ended and self._keeps_end and self._storage is not None:
            place = Path(self._storage.trial_fs_path, ENDING_FOLDER)
            place.mkdir(parents=True, exist_ok=True)
            self.save_checkpoint(str(place))
        return row

    def _advanced(self) -> tuple[State, dict[str, Any]]:
        """The state at the next report and its row, timed."""
        loop = self._loop
        self._current()  # includes the seconds of a checkpoint, or of evaluating the start
        with timed(self._seconds) as elapsed:
            if self._limited:
                loop.limit_to(granted(*self._named()))
                self._join()
            found = loop.report(loop.advance_to_report(self._current()))
            self._seconds = elapsed()
        return found

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the state atomically, readable without this trainable."""
        last: Any = self._last_result
        if last:
            last.pop(CURVE_KEY, None)
        loop, state = self._loop, self._current()
        notes = {"sent": self._sent, "seconds": self._seconds, "joined": self._joined}
        notes |= {"end": stopping.end_of(loop, state)}
        checkpoints.save_loop(loop, state, Path(checkpoint_dir, STATE_FILE), **notes)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Continue from a state; it may come from another estimator, q or step (as in PBT)."""
        file = Path(checkpoint, STATE_FILE)
        self._take_defaults_of(file)
        self._sent = self._go_on_from(file)["sent"]

    def _begin(self, settings: Mapping[str, Any]) -> None:
        torch.set_num_threads(self._threads())
        config = self._checked(settings)
        self.__dict__.pop("_loop", None)  # free the old model before the new one is built
        self._loop = self._with_workers(config) if config.workers else self._alone(config)
        self._state = None
        self._sent, self._seconds = -1, 0.0
        self._charged = self._joined = 0
        self._counted = 0, 0
        self._wanted: bool | None = None

    def _alone(self, config: Config) -> loops.Loop:
        """A loop that evaluates in this process."""
        self._workers.close()
        return loops.Loop(config, self._objective(config))

    def _with_workers(self, config: Config) -> loops.Loop:
        """A loop whose requests the trial's workers answer; only they call a factory."""
        self._workers.require(config.workers)
        made_there = self._source is not None and isinstance(self._source.target, sources.Factory)
        loop = None if made_there else loops.Loop(config, self._objective(config))
        key = json.dumps(config.problem, sort_keys=True)
        workers = self._workers.open(
            config.workers,
            key,
            partial(_objective_of, self._source, self._data, config.problem, counts=self._counts()),
        )
        torch.set_num_threads(workers.threads)  # the same rounding as in the workers
        loop = loop or loops.Loop(config, workers.describe() or self._objective(config))
        run_workers.serve(workers, loop)
        workers.gather()  # the trial's wall time excludes the start of processes
        return loop

    def _current(self) -> State:
        """The state; evaluates the start unless the trial continues from a checkpoint."""
        if self._state is None:
            before = self._carried.get(self._loop.config.identity)
            if before is None:
                with timed() as elapsed:
                    self._state, self._charged = self._loop.init(), 0
                    self._counted = 0, 0
                    self._seconds = elapsed()
            else:
                self._go_on_from(Path(before))
        assert self._state is not None  # one of the two has made it
        return self._state

    def _go_on_from(self, file: Path) -> dict[str, Any]:
        """Continue from a checkpoint's state; returns the notes that were saved with it."""
        self._charged = checkpoints.charged_in(file)
        self._state, notes = checkpoints.load_loop(self._loop, file)
        self._counted = self._loop.called(self._state), self._loop.looked(self._state)
        self._seconds, self._joined = notes.get("seconds", 0.0), int(notes.get("joined", 0))
        return notes

    def _join(self) -> None:
        """Change to the point that the driver has named once the trial reaches its position."""
        state, told = self._current(), joins(*self._named())
        if told is None or not self._joined < told[0] <= self._charged:
            return
        self._state = joining.joined(self._loop, state, checkpoints.load_state(told[1])[0])
        self._joined = told[0]

    def _take_defaults_of(self, file: Path) -> None:
        """Rebuild with the defaults of a checkpoint's older format, if they differ."""
        told = {**self._shared, **self.defaults, **(self.config or {})}
        then = checkpoints.with_defaults_of(file, told)
        if then != told and self._checked(then) != self._loop.config:
            self._begin(then)

    def _checked(self, settings: Mapping[str, Any]) -> Config:
        merged = {**self._shared, **self.defaults, **settings}
        if self._source is None:
            problem = problem_mapping(plain(merged.get("problem")))
            merged["problem"] = complete_problem({**self._shared.get("problem", {}), **problem})
        return parse_config(plain(merged))

    def _objective(self, config: Config) -> AnyObjective:
        """The objective of a configuration; a reused actor builds it once.

        A model is built for every trial, because the last trial has changed its weights.
        """
        key = json.dumps(config.problem, sort_keys=True)
        if self._built and self._built[0] == key and isinstance(self._built[1], Objective):
            return _counting(self._built[1], self._counts())
        self._built = None
        device = self._device()
        told = self._source, self._data, config.problem, device
        built = _objective_of(*told, counts=self._counts())
        self._built = (key, built)
        return built

    def _counts(self) -> tuple[str, str] | None:
        """The folder in which calls are counted, and the trial; None if they are not."""
        return (self._calls, self._named()[1]) if self._calls is not None else None

    def _new_points(self, state: State, status: str) -> list[dict[str, Any]]:
        """Curve points that have become final since the last row; the last has all losses."""
        points: list[dict[str, Any]] = self._loop.curve_rows(state, self._sent, status)
        self._sent = points[-1]["spent"] if points else self._sent
        if points and status != RUNNING:
            points[-1][LOSSES_KEY] = self._loop.final_losses(state)
            points[-1][MINIMUM_KEY] = self._loop.minimum
            points[-1][GAMMA_KEY] = self._loop.gamma
        return points

    def _sends_curve(self) -> bool:
        """Whether the configuration or a callback of the experiment requests curve points."""
        if self._wanted is None:
            self._wanted = self._loop.config.curve or curves_wanted(self._named()[0])
        return self._wanted

    def _named(self) -> tuple[str, str]:
        """The experiment and the trial."""
        info = self._trial_info
        return (info.experiment_name, info.trial_id) if info else ("", "")

    def _share(self, resource: str) -> float:
        """The trial's own share of a resource, without its workers."""
        resources = self.trial_resources
        if not resources or resources.head_bundle_is_empty:
            return 0.0
        return float(resources.bundles[0].get(resource, 0))

    def _threads(self) -> int:
        return max(1, int(self._share("CPU")))

    def _device(self) -> torch.device:
        """The GPU that Ray has assigned to the trial, if it exists; else the CPU."""
        on_gpu = self._share("GPU") > 0 and torch.cuda.is_available()
        return torch.device("cuda" if on_gpu else "cpu")


def _objective_of(
    source: sources.Source | None,
    data: Any,
    problem: Mapping[str, Any],
    device: torch.device,
    counts: tuple[str, str] | None = None,
) -> AnyObjective:
    """The objective that was bound, or the problem of a configuration."""
    if source is None:
        return _counting(build_any_problem(problem, device=device), counts)
    return _counting(source.build(data, device), counts)


def _counting(objective: AnyObjective, counts: tuple[str, str] | None) -> AnyObjective:
    """The same objective, whose calls are counted if it is a user's function."""
    if counts is not None and isinstance(objective, CallableObjective):
        objective.counted = Calls(Path(counts[0]), counts[1])
    return objective


def plain(value: Any) -> Any:
    """NumPy scalars, which searchers and schedulers draw, as Python numbers."""
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    return value.item() if isinstance(value, np.generic) else value


_BOUND: dict[str, list[tuple[Any, ...]]] = {}


def trainable(
    objective: Any,
    *,
    data: Any = None,
    name: str | None = None,
    dim: int | None = None,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    failures: type[BaseException] | tuple[type[BaseException], ...] = (),
    array: str | None = None,
    **defaults: Any,
) -> type[ZOTrainable]:
    """A ``ZOTrainable`` bound to your objective.

    Args:
        objective: an Objective; a function of one vector (with ``dim``), called ``fn(x)`` or, with
            data, ``fn(x, data)``; a ``zotune.factory``, called with the data in each worker; or a
            ``torch.nn.Module``, whose loss is ``module.loss(data)`` or ``module(data)``.
        data: stored in Ray's object store once, for all trials.
        name: the name for Tune; default: the objective's name and a hash of its code.
        dim: dimension of a plain function.
        metrics: {name: function of x} of a plain function; each has a column in Tune's results.
        failures: exception types of a plain function that reject the point, like inf.
        array: "numpy" or "torch", the argument type of a plain function; default: determined
            automatically.
        defaults: settings that trials may leave out, such as budget or replicates.

    Returns:
        A class for ``tune.Tuner``, which includes the estimators and directions that you have
        registered so far. Its name is the same in every run of a script, so that
        ``Tuner.restore`` finds it, and unique among the objectives of a driver.

    >>> import zotune
    >>> bowl = zotune.objective(lambda x: (x**2).sum(), dim=3, L=2.0)
    >>> zotune.trainable(bowl, name="bowl", budget=100).__name__
    'bowl'
    """
    told = {"metrics": metrics, "failures": failures, "array": array}
    source = sources.Source(objective, dim, {key: value for key, value in told.items() if value})
    unknown = [key for key in defaults if key not in Config.model_fields]
    if unknown:
        parse_config({"budget": 1, unknown[0]: None})
    parse_config({"budget": defaults.get("budget", 1)})
    source.check_options(data)
    sources.require_sendable(objective, metrics)
    unique = _unique_name(name or f"{source.name}-{source.code}", (objective, data))
    bound = type(unique, (ZOTrainable,), {"defaults": defaults, "__doc__": ZOTrainable.__doc__})
    with_source: type[ZOTrainable] = tune.with_parameters(
        bound, source=source, data=data, own=plugin_entries()
    )
    return with_source


def _unique_name(name: str, bound: tuple[Any, ...]) -> str:
    """The name, with a number if it is taken in this process already."""
    holders = _BOUND.setdefault(name, [])
    for at, holder in enumerate(holders):
        if all(mine is theirs for mine, theirs in zip(bound, holder, strict=True)):
            return name if at == 0 else f"{name}-{at + 1}"
    holders.append(bound)
    return name if len(holders) == 1 else f"{name}-{len(holders)}"
