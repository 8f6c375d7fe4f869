"""Points a second into MLflow, and the time that Tune's loop is held, beside Ray's own callback.

Both callbacks are told of the same trials, by the calls that Tune makes; what counts is the time
until everything is in the store, the start of our deliverer included. Ray's callback sees a row for
each result; ours sees the curve points between two results as well.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from zotune.callbacks.serving import served
from zotune.callbacks.stores import QUIET, open_client
from zotune.core.grid import GRID_POINTS

if TYPE_CHECKING:
    from ray.tune import Callback
    from ray.tune.experiment import Trial
    from rich.table import Table

OURS, RAYS = "zotune MLflowCurves", "Ray MLflowLoggerCallback"
WANTED = 50.0
HELD = 5.0
"""Milliseconds that a result may hold Tune's loop."""
EXPERIMENT, REPORTS = "bench", 16
CONFIG: dict[str, Any] = {
    "problem": {"name": "quadratic", "dim": 100},
    "estimator": "align",
    "q": 10,
    "update": "sgd",
    "step": "theory",
    "count": "directions",
    "budget": 3200,
}


@dataclass(frozen=True)
class LoggingRate:
    """One callback on one store."""

    store: str
    callback: str
    points: int
    """Steps of curves that the store has, each with all of its metrics."""
    seconds: float
    points_per_second: float
    ratio: float
    """To the points a second of Ray's callback on the same store."""
    median_ms: float
    """Time that a result holds Tune's loop."""
    worst_ms: float


@dataclass(frozen=True)
class Delivered:
    """The number of results given to a callback, and the time it took."""

    seconds: float
    held: list[float]


def logging(
    *,
    trials: int = 16,
    rays_results: int = REPORTS,
    on_case: Callable[[str], None] = lambda case: None,
) -> Iterator[LoggingRate]:
    """Measure both callbacks on sqlite and over http.

    Args:
        trials: curves of 320 points that ours is told.
        rays_results: results that Ray's is told; it takes long.
        on_case: told what is measured next.
    """
    for key, value in QUIET.items():
        os.environ.setdefault(key, value)
    results = _results()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for store, opened in (("sqlite", _sqlite), ("http", _server)):
            on_case(f"{store}: starting")
            with opened(place / store) as uri:
                yield from _store(store, uri, place / store, results, trials, rays_results, on_case)


def _store(
    store: str,
    uri: str,
    place: Path,
    results: list[dict[str, Any]],
    trials: int,
    rays_results: int,
    on_case: Callable[[str], None],
) -> Iterator[LoggingRate]:
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    from zotune.callbacks import MLflowCurves

    on_case(f"{store}: {RAYS}")
    rays = MLflowLoggerCallback(tracking_uri=uri, experiment_name=f"{EXPERIMENT} ray")
    told = tell(rays, _trials(1), results[:rays_results])
    base = _measured(store, RAYS, told, _stored(uri, f"{EXPERIMENT} ray"), None)
    yield base
    on_case(f"{store}: {OURS}")
    ours = MLflowCurves(uri, EXPERIMENT, spool=place / "spool", wait=600, points=GRID_POINTS)
    told = tell(ours, _trials(trials), results)
    yield _measured(store, OURS, told, _stored(uri, EXPERIMENT), base)


def _measured(
    store: str, callback: str, told: Delivered, points: int, base: LoggingRate | None
) -> LoggingRate:
    rate = points / told.seconds
    return LoggingRate(
        store=store,
        callback=callback,
        points=points,
        seconds=told.seconds,
        points_per_second=rate,
        ratio=1.0 if base is None else rate / base.points_per_second,
        median_ms=1e3 * median(told.held),
        worst_ms=1e3 * max(told.held),
    )


def tell(callback: Callback, trials: list[Trial], results: list[dict[str, Any]]) -> Delivered:
    """Tell a callback of trials that run side by side, as Tune does."""
    held = []
    start = time.perf_counter()
    callback.setup()
    for trial in trials:
        callback.on_trial_start(iteration=0, trials=trials, trial=trial)
    for at, result in enumerate(results):
        callback.on_step_begin(iteration=at, trials=trials)
        for trial in trials:
            row = {**result, "trial_id": trial.trial_id}
            begun = time.perf_counter()
            callback.on_trial_result(iteration=at, trials=trials, trial=trial, result=row)
            held.append(time.perf_counter() - begun)
            trial.run_metadata.last_result = row
    for trial in trials:
        callback.on_trial_complete(iteration=len(results), trials=trials, trial=trial)
    callback.on_experiment_end(trials=trials)
    return Delivered(time.perf_counter() - start, held)


def _trials(count: int) -> list[Trial]:
    from ray.tune.experiment import Trial
    from ray.tune.registry import register_trainable

    from zotune.tune.trainables import ZOTrainable

    register_trainable(ZOTrainable.__name__, ZOTrainable)
    configs = [CONFIG | {"seed": seed} for seed in range(count)]
    return [
        Trial(ZOTrainable.__name__, config=c, evaluated_params={"seed": c["seed"]}) for c in configs
    ]


def _results() -> list[dict[str, Any]]:
    """The results of a trial, as a worker sends them, curve points included."""
    from zotune.tune.trainables import ZOTrainable

    worker = ZOTrainable(CONFIG | {"curve": True})
    results = [worker.train() for _ in range(REPORTS)]  # type: ignore[no-untyped-call]
    worker.stop()  # type: ignore[no-untyped-call]
    return results


def _stored(uri: str, experiment: str) -> int:
    """Points of the loss that the store has, over all runs."""
    client = open_client(uri)
    found = client.get_experiment_by_name(experiment)
    runs = client.search_runs([found.experiment_id]) if found else []
    return sum(len(client.get_metric_history(run.info.run_id, "loss")) for run in runs)


@contextmanager
def _sqlite(folder: Path) -> Iterator[str]:
    """A sqlite store; making its tables is not what is measured."""
    folder.mkdir()
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    open_client(uri)
    yield uri


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """An MLflow server of this machine."""
    with _sqlite(folder) as store, served(store) as address:
        yield address


def table(measurements: list[LoggingRate]) -> Table:
    """Measurements for a person; what was to be reached stands beside what was."""
    from rich.table import Table

    shown = Table("store", "callback", title="Points a second into MLflow")
    columns = ("points", "points/s", f"× Ray's (to reach {WANTED:g})")
    for column in (*columns, f"ms a result (at most {HELD:g})", "worst"):
        shown.add_column(column, justify="right")
    for m in measurements:
        numbers = (str(m.points), f"{m.points_per_second:.1f}", f"{m.ratio:.0f}")
        shown.add_row(m.store, m.callback, *numbers, f"{m.median_ms:.2f}", f"{m.worst_ms:.1f}")
    return shown
