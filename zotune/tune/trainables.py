"""``ZOTrainable``, the adapter to Ray Tune, and ``trainable``, which binds it to an objective."""

from __future__ import annotations

import json
import logging
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
from zotune.core.clock import timed
from zotune.core.names import (
    AGAIN,
    CALLED,
    CALLED_BEFORE,
    CHARGED,
    CHARGED_BEFORE,
    CURVE_KEY,
    ENDING_FOLDER,
    ENDS_KEY,
    GAMMA_KEY,
    LOOKED,
    LOOKED_BEFORE,
    LOSSES_KEY,
    LOST_KEY,
    MINIMUM_KEY,
    OUT_OF_TIME,
    RUNNING,
    STATE_FILE,
)
from zotune.errors import ConfigError
from zotune.objectives import (
    AnyObjective,
    Objective,
    build_any_problem,
    complete_problem,
    problem_mapping,
)
from zotune.tune.curve_requests import curves_wanted
from zotune.tune.grants import granted, joins
from zotune.tune.own_keys import as_text, own_keys, warn_of_misspelt
from zotune.tune.shipping import Shipped
from zotune.tune.trial_workers import TrialWorkers, bundles_for

if TYPE_CHECKING:
    import torch

    from zotune import loop as loops
    from zotune.core.state import State
    from zotune.loop import joining
    from zotune.runs import checkpoint as checkpoints
    from zotune.runs import counting, sources, stopping
    from zotune.runs import workers as run_workers
else:  # imported late: a driver only names the class; its workers need torch
    torch = LazyModule("torch")
    loops = LazyModule("zotune.loop")
    joining = LazyModule("zotune.loop.joining")
    checkpoints = LazyModule("zotune.runs.checkpoint")
    counting = LazyModule("zotune.runs.counting")
    sources = LazyModule("zotune.runs.sources")
    stopping = LazyModule("zotune.runs.stopping")
    run_workers = LazyModule("zotune.runs.workers")


logger = logging.getLogger("zotune")


class ZOTrainable(tune.Trainable, metaclass=Shipped):
    """A zeroth-order run as a Ray Tune trainable.

    The configuration has the settings that ``zotune list`` shows: problem, estimator, q, step, …
    A ``step()`` runs to the next multiple of ``report_every`` in spent budget and reports at the
    first zeroth-order step at or past it; the trial ends when its budget is spent. Rows have
    ``timesteps_total`` = spent, so that loggers and schedulers count queries. Estimators, problems
    and other entries that the driver has registered go with the class to its workers.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}
    """Settings that a trial's configuration may leave out."""
    bound: ClassVar[bool] = False
    """Whether the class has an objective of its own, so that there is no ``problem`` to set."""
    takes_config: ClassVar[bool] = False
    """Whether its function takes the keys of a configuration that are not settings."""

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
        shared: Mapping[str, Any] | None = None,
        limited: bool = False,
        most_seconds: float | None = None,
        tells_ends: bool = False,
        calls: str | None = None,
        keeps_end: bool = False,
        **more: Any,
    ) -> None:
        """Build the objective and the loop; invalid settings raise before anything is evaluated.

        ``carried`` holds checkpoints from which trials start, by their identity; ``shared`` the
        settings of a resumed launch, as defaults of its trials. ``limited`` says that the driver
        limits the budget; ``most_seconds`` is the wall time after which a trial ends as if its
        budget was spent. ``tells_ends`` adds the final loss of each replicate to the last row, for
        a search that depends on them. ``calls`` is a folder in which calls of the function are
        counted; ``keeps_end`` says to write the state of a trial that ends before it is reported.
        ``more`` are further arguments of the bound function.
        """
        require_taken(source, data, more)
        self._source = source
        self._data = data
        self._more = more
        self._carried = carried or {}
        self._shared = shared or {}
        self._limited = limited
        self._tells_ends = tells_ends
        self._most_seconds = inf if most_seconds is None else most_seconds
        self._calls, self._keeps_end = calls, keeps_end
        self._built: tuple[str, AnyObjective] | None = None
        self._workers = TrialWorkers(self.trial_resources)
        self._begin(config)

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory | None:
        """One CPU, and one for each worker; None if there are no workers.

        Tune asks for it in the driver, which also warns of keys that may be misspelt settings.
        """
        if cls.takes_config:
            warn_of_misspelt(config)
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
        row |= self._totals(before)
        row["seconds"] = round(self._seconds, 3)
        row |= {TIMESTEPS_TOTAL: row["spent"], DONE: ended, SHOULD_CHECKPOINT: ended}
        self._watch_start(state, row)
        if self._tells_ends:
            row[ENDS_KEY] = json.dumps(self._ends(state)) if ended else ""
        if self._sends_curve():
            row[CURVE_KEY] = self._new_points(state, row["status"])
        if ended and self._keeps_end:
            self._keep_end()
        return row

    def _totals(self, before: int) -> dict[str, int]:
        """What all replicates have spent, now and at the start of this report's part."""
        loop, state = self._loop, self._current()
        (called, looked), self._counted = self._counted, (loop.called(state), loop.looked(state))
        now = {CHARGED: self._charged, CALLED: self._counted[0], LOOKED: self._counted[1]}
        then = {CHARGED_BEFORE: before, CALLED_BEFORE: called, LOOKED_BEFORE: looked}
        return now | then | {AGAIN: loop.repeated}

    def _keep_end(self) -> None:
        """Write the state into the folder of the trial, before its last row is told."""
        if self._storage is not None:
            place = Path(self._storage.trial_fs_path, ENDING_FOLDER)
            place.mkdir(parents=True, exist_ok=True)
            self.save_checkpoint(str(place))

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
        notes |= {"end": stopping.end_of(loop, state), "own": as_text(self._own)}
        checkpoints.save_loop(loop, state, Path(checkpoint_dir, STATE_FILE), **notes)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Continue from a state; it may come from another estimator, q or step (as in PBT)."""
        file = Path(checkpoint, STATE_FILE)
        self._sent = self._go_on_from(file)["sent"]

    def _begin(self, settings: Mapping[str, Any]) -> None:
        torch.set_num_threads(self._threads())
        config, self._own = self._checked(settings)
        self.__dict__.pop("_loop", None)  # free the old model before the new one is built
        self._loop = self._with_workers(config) if config.workers else self._alone(config)
        self._state = None
        self._sent, self._seconds = -1, 0.0
        self._charged = self._joined = 0
        self._counted = 0, 0
        self._wanted: bool | None = None
        self._warned = False

    def _alone(self, config: Config) -> loops.Loop:
        """A loop that evaluates in this process."""
        self._workers.close()
        return loops.Loop(config, self._objective(config))

    def _with_workers(self, config: Config) -> loops.Loop:
        """A loop whose requests the trial's workers answer; only they call a factory."""
        self._workers.require(config.workers)
        made_there = self._source is not None and isinstance(self._source.target, sources.Factory)
        loop = None if made_there else loops.Loop(config, self._objective(config))
        workers = self._workers.open(config.workers, self._key(config), self._make(config))
        torch.set_num_threads(workers.threads)  # the same rounding as in the workers
        loop = loop or loops.Loop(config, workers.describe() or self._objective(config))
        run_workers.serve(workers, loop, counts=self._counts())
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
        if notes.get("own", as_text({})) != as_text(self._own):
            self._state = self._loop.renew(self._state)
        self._seconds, self._joined = notes.get("seconds", 0.0), int(notes.get("joined", 0))
        again = int(notes.get("end", {}).get("repeated", 0))
        self._loop.repeated_before = max(again - self._loop.repeated, 0)
        return notes

    def _join(self) -> None:
        """Change to the point that the driver has named once the trial reaches its position."""
        state, told = self._current(), joins(*self._named())
        if told is None or not self._joined < told[0] <= self._charged:
            return
        self._state = joining.joined(self._loop, state, checkpoints.load_state(told[1])[0])
        self._joined = told[0]

    def _checked(self, settings: Mapping[str, Any]) -> tuple[Config, dict[str, Any]]:
        """The settings of the run, and the keys that go to the user's function."""
        merged = plain({**self._shared, **self.defaults, **settings})
        if self._source is not None:
            if "problem" not in settings:  # it may be shared by a study
                merged.pop("problem", None)
            merged, own = own_keys(merged, takes_config=self._source.takes_config)
            return parse_config(merged), own
        problem = problem_mapping(merged.get("problem"))
        merged["problem"] = complete_problem({**self._shared.get("problem", {}), **problem})
        return parse_config(merged), {}

    def _objective(self, config: Config) -> AnyObjective:
        """The objective of a configuration; a reused actor builds it once.

        A model is built for every trial, because the last trial has changed its weights.
        """
        key = self._key(config)
        if self._built and self._built[0] == key and isinstance(self._built[1], Objective):
            return counting.counted(self._built[1], self._counts())
        self._built = None
        built = self._make(config)(self._device())
        self._built = (key, built)
        return counting.counted(built, self._counts())

    def _make(self, config: Config) -> Callable[[torch.device], AnyObjective]:
        """What builds the objective on a device: as bound, or the problem of the configuration."""
        if self._source is None:
            return partial(_problem_on, config.problem)
        return partial(_bound_on, self._source, self._data, self._own, self._more)

    def _key(self, config: Config) -> str:
        """All of the configuration that the objective depends on, as text."""
        return as_text({"problem": config.problem, "own": self._own})

    def _counts(self) -> counting.Place | None:
        """The folder in which calls are counted, and the trial; None if they are not."""
        return (self._calls, self._named()[1]) if self._calls is not None else None

    def _new_points(self, state: State, status: str) -> list[dict[str, Any]]:
        """Curve points that have become final since the last row; the last has all losses."""
        points: list[dict[str, Any]] = self._loop.curve_rows(state, self._sent, status)
        self._sent = points[-1]["spent"] if points else self._sent
        if points and status != RUNNING:
            points[-1] |= self._ends(state)
            points[-1][GAMMA_KEY] = self._loop.gamma
        return points

    def _watch_start(self, state: State, row: Mapping[str, Any]) -> None:
        """Warn once if a quarter of the budget has not changed the loss."""
        if 4 * row["spent"] >= self._loop.config.budget and not self._warned:
            self._warned = True
            if stopping.stays_at_start(state):
                trial = self._named()[1] or self._loop.objective.name
                logger.warning(f"{trial}: {stopping.STATIONARY}")

    def _ends(self, state: State) -> dict[str, Any]:
        """The final loss of each replicate, whether it has diverged, and the minimum."""
        return {
            LOSSES_KEY: self._loop.final_losses(state),
            LOST_KEY: state.diverged.tolist(),
            MINIMUM_KEY: self._loop.minimum,
        }

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


class WithParameters:
    """Mixed into bound trainables: takes what ``tune.with_parameters`` adds to them."""

    def setup(self, config: dict[str, Any], **added: Any) -> None:
        """Keep what was added for the setup of the trainable itself."""
        self._added = added
        super().setup(config)  # type: ignore[misc]


class WithObjective(ZOTrainable):
    """A trainable with an objective; its own data and those of ``tune.with_parameters``."""

    bound = True
    _added: Mapping[str, Any]

    def setup(self, config: dict[str, Any], **told: Any) -> None:  # type: ignore[override]
        """Set up with the objective, its data, and what was added."""
        if told.get("data") is not None and "data" in self._added:
            raise ConfigError(
                "data is given twice, to zotune.trainable and by tune.with_parameters; keep one"
            )
        super().setup(config, **{**told, **self._added})


def _problem_on(problem: Mapping[str, Any], device: torch.device) -> AnyObjective:
    return build_any_problem(problem, device=device)


def _bound_on(
    source: sources.Source,
    data: Any,
    own: Mapping[str, Any],
    more: Mapping[str, Any],
    device: torch.device,
) -> AnyObjective:
    return source.build(data, device, own, more)


def require_taken(source: sources.Source | None, data: Any, more: Mapping[str, Any]) -> None:
    """Raise an error for arguments of ``tune.with_parameters`` that nobody takes."""
    if source is not None:
        source.require_taken(data, more)
    elif more or data is not None:
        name = next(iter(more), "data")
        raise ConfigError(
            f"zotune.ZOTrainable takes no {name}, which tune.with_parameters gives; a function "
            f"of yours does: tune.with_parameters(zotune.trainable(fn, dim=…), {name}=…)"
        )


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
    start: Any = None,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    failures: type[BaseException] | tuple[type[BaseException], ...] = (),
    array: str | None = None,
    **defaults: Any,
) -> type[ZOTrainable]:
    """A ``ZOTrainable`` bound to your objective.

    Args:
        objective: an Objective; a function of one vector (with ``dim``), called ``fn(x)`` or, with
            data, ``fn(x, data)``; a ``zotune.factory``, called with the data in each worker; or a
            ``torch.nn.Module``, whose loss is ``module.loss(data)`` or ``module(data)``. If the
            function or the factory has a parameter ``config``, as in ``fn(x, data, config)``, it
            gets all keys of a trial's configuration that are not settings. It also gets what
            ``tune.with_parameters(trainable, name=…)`` adds, by name.
        data: stored in Ray's object store once, for all trials.
        name: the name for Tune; default: the objective's name and a hash of its code.
        dim: dimension of a plain function; default: that of ``start``.
        start: start of the runs of a plain function, (d,); default: zero.
        metrics: {name: function of x} of a plain function; each has a column in Tune's results.
        failures: exception types of a plain function that reject the point, like inf.
        array: "numpy" or "torch", the argument type of a plain function; default: determined
            automatically.
        defaults: settings that trials may leave out, such as budget or replicates; and further keys
            if the function takes ``config``.

    Returns:
        A class for ``tune.Tuner``, which takes the entries that you have registered (estimators,
        directions, …) to its workers. Its name is the same in every run of a script, so that
        ``Tuner.restore`` finds it, and unique among the objectives of a driver.

    >>> import zotune
    >>> bowl = zotune.objective(lambda x: (x**2).sum(), dim=3, L=2.0)
    >>> zotune.trainable(bowl, name="bowl", budget=100).__name__
    'bowl'
    """
    told = {"metrics": metrics or None, "failures": failures or None, "array": array}
    told["start"] = start
    given = {key: value for key, value in told.items() if value is not None}
    source = sources.Source(objective, dim, given)
    own_keys(defaults, takes_config=source.takes_config)
    parse_config({"budget": defaults.get("budget", 1)})
    source.check(data)
    sources.require_sendable(objective, metrics)
    unique = _unique_name(name or f"{source.name}-{source.code}", (objective, data))
    named: dict[str, Any] = {"defaults": defaults, "__doc__": ZOTrainable.__doc__}
    named["takes_config"] = source.takes_config
    with_source = tune.with_parameters(
        type(unique, (WithObjective,), named), source=source, data=data
    )
    return type(unique, (WithParameters, with_source), {"__doc__": ZOTrainable.__doc__})


def _unique_name(name: str, bound: tuple[Any, ...]) -> str:
    """The name, with a number if it is taken in this process already."""
    holders = _BOUND.setdefault(name, [])
    for at, holder in enumerate(holders):
        if all(mine is theirs for mine, theirs in zip(bound, holder, strict=True)):
            return name if at == 0 else f"{name}-{at + 1}"
    holders.append(bound)
    return name if len(holders) == 1 else f"{name}-{len(holders)}"
