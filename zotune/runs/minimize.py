"""``minimize``: run the loop from start to end in this process, without Ray Tune."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zotune.config import Config, parse_config, recorded_config
from zotune.core.code import code_of
from zotune.core.names import RUNNING
from zotune.core.state import State
from zotune.errors import CheckpointError, ConfigError, ZotuneError
from zotune.loop import Loop
from zotune.objectives import (
    CallableObjective,
    Objective,
    build_any_problem,
    complete_problem,
    dimension_of,
    objective,
    problem_mapping,
)
from zotune.runs.bar import Bar
from zotune.runs.checkpoint import load_loop, save_loop
from zotune.runs.meter import Meter
from zotune.runs.run import Run, run_of
from zotune.runs.sources import (
    Factory,
    Source,
    require_exceptions,
    require_sendable,
)
from zotune.runs.stopping import ASKED, Stop, end_of
from zotune.runs.watching import StepWatcher
from zotune.runs.workers import serve, workers_here
from zotune.weights.objective import WeightsObjective

if TYPE_CHECKING:
    from zotune.evaluators.ray_workers import RayWorkers

Problem = Objective | WeightsObjective | Factory | str | Mapping[str, Any] | Callable[..., Any]


def minimize(
    objective: Problem,
    x0: Any = None,
    *,
    budget: int,
    data: Any = None,
    bounds: Any = None,
    failures: type[BaseException] | tuple[type[BaseException], ...] = (),
    residuals: int | bool = False,
    target: float | None = None,
    ftol: float | None = None,
    xtol: float | None = None,
    seconds: float | None = None,
    array: str | None = None,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    on_report: Callable[[dict[str, Any]], Any] | None = None,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    worker: Mapping[str, float] | None = None,
    **settings: Any,
) -> Run:
    """Minimise a function using only its values, within a budget of evaluations.

    By default the method is chosen automatically (see ``zotune list methods``): for a deterministic
    function the result is never above the start, and a value of inf or NaN rejects the point. If a
    setting of the method is given (estimator, q, update, step, eta, L, mu, …; see ``zotune list``),
    the iteration is x ← x − η U c(v, U) instead, where v are the differences along the q directions
    of the block U and c are the estimator's coefficients. Those of estimator, q, update and step
    that are not given are chosen to match (see ``run.chosen``). An eta without a step implies
    ``step="constant"``, an L implies ``step="theory"``.

    Args:
        objective: a function of one vector if ``x0`` is given, an Objective (see
            ``zotune.objective``), a problem's name or mapping, a ``zotune.factory``, which is
            called in every process that evaluates, or a WeightsObjective, whose module is moved.
        x0: the start, (d,) or (replicates, d); default: the objective's start.
        budget: the budget, in evaluations, or in directions if ``count`` says so. The function is
            never called more often. Each replicate has its own: ``replicates=3`` spends three.
        data: passed to a plain function, as ``fn(x, data)``, or to a factory.
        bounds: (low, high), numbers or vectors, or SciPy's ``Bounds``; all evaluated points are
            inside.
        failures: exceptions of these types are failed evaluations, like inf; others end the run.
        residuals: whether a plain function returns a vector of residuals (or their number), whose
            sum of squares Σ r² is minimised; see ``run.residuals``, ``run.standard_errors``.
        target: stop once the best loss is at most this.
        ftol: stop once the best loss has not fallen by more than ``ftol`` times the larger of
            |loss| and what was gained since the start, over 10 (d + 1) evaluations.
        xtol: stop once no coordinate of the best point has moved by more than ``xtol`` times its
            largest |x| so far, over as many evaluations. Without tolerances the whole budget is
            spent; a descent that has converged is restarted.
        seconds: maximum wall time in seconds; a run that it ends is not a success.
        array: "numpy" or "torch", the argument type of a plain function; default: its annotation,
            or determined at the first call.
        metrics: {name: function of x} for a plain function; evaluated without charge at the points
            of the curve and at reports, each with its own column.
        on_report: called with a result row about sixteen times a run, see ``report_every``. If it
            returns True or raises StopIteration, the run ends there, and is no success.
        checkpoint: a file to save the state to: at the start, at every report, and when the
            objective raises or the run is interrupted. If the file exists, the run continues it.
        progress: whether to show a progress bar; default: in a terminal.
        worker: resources of each of the ``workers``, such as ``{"cpu": 0.5, "gpu": 0.25}``;
            default: one CPU.
        settings: keys of the configuration: estimator, q, step, eta, L, mu, difference,
            directions, count, replicates, seed, report_every, workers, …

    Returns:
        A ``Run`` with ``x``, ``best_x``, ``curve``, ``nfev``, ``success``, and ``message``, which
        says why the run ended, how many evaluations failed, and how noisy the function is.

    >>> import zotune
    >>> run = zotune.minimize(lambda x: ((x - 3) ** 2).sum(), [0.0] * 5, budget=100)
    >>> run.best_loss < 1e-8
    True
    >>> run = zotune.minimize({"name": "quadratic", "dim": 20}, estimator="align", q=20, budget=400)
    >>> run.status, run.x.shape, bool(run.best_loss < run.curve.loss[0])
    ('exhausted', torch.Size([1, 20]), True)
    """
    told: dict[str, Any] = {"budget": budget} | settings
    _require_kinds(on_report, checkpoint)
    count = parse_config({"budget": 1, "workers": settings.get("workers", 0)}).workers
    plain: dict[str, Any] = {"array": array, "metrics": metrics, "residuals": residuals}
    make = partial(as_objective, objective, x0, failures, data, **plain)
    if count:
        require_sendable(objective, metrics)
    with ExitStack() as open_:
        workers, start = None, partial(workers_here, count, partial(_first, make), worker)
        if count and isinstance(objective, Factory):
            workers = open_.enter_context(start())
        found, problem = make() if workers is None else _known(workers, make)
        if xtol is not None and not isinstance(found, Objective):
            raise ConfigError("xtol is for vectors, and this is a function of weights; give ftol")
        bounds = _sides(bounds) if bounds is not None else getattr(found, "bounds", None)
        told |= {} if bounds is None else {"bounds": bounds}
        config = parse_config(told | {"problem": problem})
        loop = Loop(config, found, x0)
        if count:
            serve(workers or open_.enter_context(start()), loop, x0)
        about = {"code": _code(objective, found), "start": loop.iterate.start_digest()}
        bar = open_.enter_context(Bar(loop.config.budget, shown=progress))
        return finish(
            loop,
            on_report=on_report,
            checkpoint=checkpoint,
            about=about,
            stop=Stop(target, ftol, xtol, seconds),
            bar=bar,
        )


def _require_kinds(on_report: Any, checkpoint: Any) -> None:
    if on_report is not None and not callable(on_report):
        raise ConfigError(f"on_report must be a function of a row, got {on_report!r}")
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike):
        raise ConfigError(
            f"checkpoint must be the name of a file, such as 'run.safetensors', got {checkpoint!r}"
        )


def _first(make: Callable[[], tuple[Any, Any]]) -> Any:
    """The objective alone."""
    return make()[0]


def _known(workers: RayWorkers, make: Callable[[], tuple[Any, Any]]) -> Any:
    """The objective as described by the workers; a model is built in this process, too."""
    found = workers.describe()
    return make() if found is None else (found, {"name": found.name, "dim": found.dim})


def _code(target: Problem, found: Any) -> str:
    return code_of(target.fn if isinstance(target, Factory) else found)


@dataclass(frozen=True)
class Saving:
    """Saves the states of a run to its checkpoint.

    Args:
        loop: the loop of the run.
        path: the file; None: nothing is saved.
        about: identifies the function and the start, which the configuration does not hold.
        stop: the stopping criteria of the run.
    """

    loop: Loop
    path: Path | None
    about: Mapping[str, str]
    stop: Stop
    meter: Meter | None = None
    """Counts the calls of the function, if each is charged."""

    def begin(self) -> State:
        """The state to continue from: the saved one, if it is of the same run, else the start."""
        if self.path is None or not self.path.is_file():
            if self.meter is not None:
                self.meter.begin(None, 0)
            state = self.loop.init()
            self.save(state)
            return state
        state, notes = load_loop(self.loop, self.path)
        _require_same_run(self.path, notes, self.loop.config, self.about)
        spent, config = self.loop.spent(state), self.loop.config
        if spent > config.budget:
            raise CheckpointError(
                f"budget must be at least what the run in {self.path} has spent, {spent} "
                f"{config.count}, got {config.budget}; raise it, or give another checkpoint"
            )
        self.stop.restore(notes.get("stop", {}), state)
        self.loop.repeated_before = repeated = notes.get("end", {}).get("repeated", 0)
        if self.meter is not None:
            self.meter.begin(state, repeated)
        return state

    def save(self, state: State, stopped: str = "") -> None:
        """Write a state, and why the run was stopped there."""
        if self.path is not None:
            if self.meter is not None:
                self.meter.tell(state)
            end = end_of(self.loop, state, self.stop, stopped)
            save_loop(self.loop, state, self.path, **self.about, stop=self.stop.notes(), end=end)

    def save_newest(self, state: State) -> None:
        """Save the state after the last completed step, unless the weights are within a step."""
        newest = self.loop.newest
        with suppress(ZotuneError):
            self.save(newest if newest.lanes else state)


def finish(
    loop: Loop,
    *,
    on_report: Callable[[dict[str, Any]], Any] | None = None,
    checkpoint: str | Path | None = None,
    about: Mapping[str, str] | None = None,
    stop: Stop | None = None,
    bar: Bar | None = None,
) -> Run:
    """Run a loop to its end, from its checkpoint if there is one and it is of the same run."""
    if checkpoint is not None and Path(checkpoint).is_dir():
        raise CheckpointError(
            f"checkpoint must be a file, got the folder {checkpoint}; give a file in it"
        )
    stop = stop or Stop()
    path = None if checkpoint is None else Path(checkpoint)
    meter = Meter(loop, path) if path is not None and loop.iterate.charges_looks else None
    try:
        return _finished(Saving(loop, path, about or {}, stop, meter), on_report, bar)
    finally:
        if meter is not None:
            meter.close()


def _finished(
    saving: Saving, on_report: Callable[[dict[str, Any]], Any] | None, bar: Bar | None
) -> Run:
    """Run a loop to its end; ``saving`` saves its states."""
    loop, stop = saving.loop, saving.stop
    state = saving.begin()
    loop.watch(StepWatcher(loop, bar, None if saving.path is None else saving.save_newest))
    stopped = _reason(loop, state, stop)
    while loop.status(state) == RUNNING and not stopped:
        try:
            (state, stopped), row = _advance(loop, state, stop), None
        except BaseException:
            saving.save_newest(state)
            raise
        if on_report is not None:
            state, row = loop.report(state)
        saving.save(state, stopped)
        if on_report is None or row is None or not _asks_to_end(on_report, row | loop.facts(state)):
            continue
        if loop.status(state) == RUNNING and not stopped:
            state, stopped, stop.asked = loop.stop(state), ASKED, True
            saving.save(state, stopped)
    return run_of(loop, state, end_of(loop, state, stop, stopped))


def _asks_to_end(on_report: Callable[[dict[str, Any]], Any], row: dict[str, Any]) -> bool:
    """Call ``on_report``; whether it returns True (1, as of ``file.write``, is not) or raises
    StopIteration.
    """
    try:
        told = on_report(row)
    except StopIteration:
        return True
    return isinstance(told, bool | np.bool_) and bool(told)


def _reason(loop: Loop, state: State, stop: Stop) -> str:
    """Why to stop now; empty if the budget is spent, even if the time is over, too."""
    stopped = stop.reason(state)
    return "" if stop.timed_out and loop.status(state) != RUNNING else stopped


def _advance(loop: Loop, state: State, stop: Stop) -> tuple[State, str]:
    """Advance to the next report or until a criterion stops the run; return the reason, too."""
    if not stop.is_wanted:
        return loop.advance_to_report(state), ""
    every = loop.config.reports_at
    goal = (loop.reached(state) // every + 1) * every
    while True:
        state = loop.advance(state, loop.reached(state) + 1)
        stopped = _reason(loop, state, stop)
        if stopped:
            return loop.stop(state), stopped
        if loop.reached(state) >= goal or loop.status(state) != RUNNING:
            return state, ""


def _require_same_run(
    path: Path, notes: Mapping[str, Any], config: Config, about: Mapping[str, str]
) -> None:
    """Raise an error if the checkpoint is of another run, whose result would be wrong here."""
    then, now = (json.loads(c.identity) for c in (recorded_config(notes["config"]), config))
    if now["problem"].keys() > then["problem"].keys():  # saved before defaults were
        then["problem"] = complete_problem(then["problem"])
    then |= {key: notes.get(key, value) for key, value in about.items()}
    differing = [key for key, value in (now | about).items() if then.get(key) != value]
    if differing:
        key = differing[0]
        what = {"code": "another function", "start": "another start"}.get(
            key, f"a run with {key} {then.get(key)!r}, not {now.get(key)!r}"
        )
        raise CheckpointError(
            f"{path} is of {what}; give each run a checkpoint of its own, or delete this one"
        )


def as_objective(
    target: Problem,
    x0: Any = None,
    failures: type[BaseException] | tuple[type[BaseException], ...] = (),
    data: Any = None,
    *,
    array: str | None = None,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    residuals: int | bool = False,
) -> tuple[Objective | WeightsObjective, dict[str, Any]]:
    """The objective, and the mapping that describes it in the configuration."""
    require_exceptions(failures)
    told = {"failures": failures, "array": array, "metrics": metrics, "residuals": residuals}
    for name, value in told.items():
        if value and not _is_plain(target):
            raise ConfigError(
                f"{name} is for a plain function; for an objective of yours give it to "
                f"zotune.objective(fn, dim, {name}=…)"
            )
    if isinstance(target, Factory):
        return as_objective(Source(target).build(data, torch.device("cpu")))
    if isinstance(target, CallableObjective):
        target, data = target.bound(data), None
    if data is not None and not _is_plain(target):
        raise ConfigError(
            "data is for a plain function, called fn(x, data), or for a zotune.factory; "
            f"got data with {type(target).__name__}"
        )
    if isinstance(target, Objective | WeightsObjective):
        return target, {"name": target.name, "dim": target.dim}
    if isinstance(target, str | Mapping):
        mapping = complete_problem(problem_mapping(target))
        return build_any_problem(mapping), mapping
    if not callable(target):
        raise ConfigError(
            f"objective must be an Objective, a problem's name or a function, "
            f"got {type(target).__name__}; wrap yours with zotune.objective(fn, dim)"
        )
    if x0 is None:
        raise ConfigError(
            "a plain function does not know its dimension; give x0, "
            "or wrap it with zotune.objective(fn, dim)"
        )
    name = Source(target, 1).name
    options: dict[str, Any] = told | {"name": name}
    wrapped = objective(target, dimension_of(x0), **options)
    if not isinstance(x0, torch.Tensor):
        wrapped.prefer_arrays()
    return as_objective(wrapped, data=data)


def _sides(bounds: Any) -> Any:
    """The bounds as given; raises an error if they look like one pair for each of 2 coordinates."""
    pairs = isinstance(bounds, list) and all(isinstance(one, tuple) for one in bounds)
    if pairs and [len(one) for one in bounds] == [2, 2]:
        low, high = zip(*bounds, strict=True)
        raise ConfigError(
            f"bounds must be (low, high), each a number or a vector, got {bounds!r}; if these are "
            f"pairs of two coordinates, give bounds=({list(low)}, {list(high)})"
        )
    return bounds


def _is_plain(target: Problem) -> bool:
    return not isinstance(target, Objective | WeightsObjective | Factory | str | Mapping)
