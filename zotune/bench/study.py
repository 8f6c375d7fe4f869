"""What Ray Tune costs a study: beside plain processes, for trivial trials, and the stock way."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from zotune.callbacks.stores import NOWHERE
from zotune.core.processes import stoppable
from zotune.objectives import Objective, build_problem
from zotune.study import Study
from zotune.study.quiet import ray_running, silence

if TYPE_CHECKING:
    from rich.table import Table

CPUS = 2
MOST_OVER_HAND = 1.15
LEAST_TRIALS_A_SECOND = 8.0
REPLICATES = 10
NICENESS = "RAY_worker_niceness"
"""Ray's workers give way to other processes, and plain ones do not: compare them as equals."""


@dataclass(frozen=True)
class StudyTime:
    """One way to run a study beside another, in seconds of wall time."""

    what: str
    seconds: float
    beside: str
    beside_seconds: float
    figure: str
    """What is to be compared: a ratio, or trials a second."""
    value: float
    wanted: str


def bench(
    *, dim: int, budget: int, trials: int, on_case: Callable[[str], None] = lambda case: None
) -> list[StudyTime]:
    """All measurements, on two CPUs.

    Args:
        dim: of the strongly convex study.
        budget: of each of its trials.
        trials: how many trivial ones.
        on_case: called with what comes next.
    """
    on_case("the study in two plain processes")
    paper = _paper(dim, budget)
    by_hand = _by_hand(paper)
    silence()
    os.environ[NICENESS] = "0"
    on_case("ray.init")
    start = perf_counter()
    with stoppable() as stop, ray_running(cpus=CPUS), tempfile.TemporaryDirectory() as folder:
        stop.listen()
        started = perf_counter() - start
        on_case("the study with Ray Tune")
        tuned = _timed(lambda: paper.run(tracking_uri=NOWHERE, storage_path=folder))
        on_case(f"{trials} trivial trials")
        trivial = _timed(lambda: _trivial(trials).run(tracking_uri=NOWHERE, storage_path=folder))
        on_case("a small study with its curves in MLflow")
        store = _new_store(Path(folder) / "ours.db")
        small = _timed(lambda: _reduced().run(tracking_uri=store, storage_path=folder))
        on_case("the small study the stock way")
        stock = _stock(_reduced(), Path(folder))
    hand = "two plain processes"
    over, most = tuned / by_hand, f"≤ {MOST_OVER_HAND}"
    rate, least = trials / trivial, f"≥ {LEAST_TRIALS_A_SECOND:g}"
    return [
        StudyTime("strongly convex", tuned, hand, by_hand, "ratio", over, most),
        StudyTime(f"{trials} trivial trials", trivial, "", 0.0, "trials/s", rate, least),
        StudyTime("stock way, small", stock, "ours", small, "factor", stock / small, ""),
        StudyTime("ray.init", started, "", 0.0, "", 0.0, ""),
    ]


def _paper(dim: int, budget: int) -> Study:
    """The headline study of the paper with four block sizes."""
    sizes = sorted({1, max(1, dim // 100), max(1, dim // 10), dim})
    return Study(
        name="bench",
        problem={"name": "quadratic", "dim": dim},
        budget=budget,
        count="directions",
        replicates=REPLICATES,
        space={"estimator": ["avg", "align"], "q": sizes},
        fixed={"update": "sgd", "step": "theory", "mu": 1e-6},
    )


def _trivial(trials: int) -> Study:
    """Trials in which nothing happens but Ray."""
    return Study(
        name="trivial",
        problem={"name": "quadratic", "dim": 2},
        budget=2,
        count="directions",
        space={"eta": [k / trials for k in range(1, trials + 1)]},
        fixed={"estimator": "align", "q": 1, "update": "sgd", "step": "theory"},
    )


def _reduced() -> Study:
    """A study small enough for the stock way."""
    return Study(
        name="reduced",
        problem={"name": "quadratic", "dim": 50},
        budget=20,
        count="directions",
        replicates=3,
        space={"estimator": ["avg", "align"], "q": [1, 10]},
        fixed={"update": "sgd", "step": "theory"},
    )


def _timed(work: Callable[[], Any]) -> float:
    start = perf_counter()
    results = work()
    if results is not None and results.errors:
        raise results.errors[0]
    return perf_counter() - start


def _by_hand(study: Study) -> float:
    """Wall time of a study's runs, each to the next free of two new processes."""
    runs = [study.configuration(point).model_dump() for point in study.trials]
    start = perf_counter()
    with multiprocessing.get_context("spawn").Pool(CPUS) as pool:
        for _ in pool.imap_unordered(_run, runs, chunksize=1):
            pass
    return perf_counter() - start


def _run(settings: Mapping[str, Any]) -> float:
    """One run in one thread."""
    import torch

    from zotune.config import parse_config
    from zotune.loop import Loop
    from zotune.runs.minimize import finish

    torch.set_num_threads(1)
    loop = Loop(parse_config(settings), _objective(json.dumps(settings["problem"])))
    return finish(loop).best_loss


@lru_cache(maxsize=1)
def _objective(problem: str) -> Objective:
    return build_problem(json.loads(problem))


def _new_store(path: Path) -> str:
    """An open sqlite store; making one takes seconds, which are nobody's fault."""
    from zotune.callbacks.stores import open_client

    open_client(f"sqlite:///{path}")
    return f"sqlite:///{path}"


def _stock(study: Study, folder: Path) -> float:
    """The study as it is usually written: a trial a seed, a report a step, Ray's own callback."""
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    import mlflow
    from ray import tune
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    from zotune.tune.trainables import ZOTrainable

    store = _new_store(folder / "stock.db")
    mlflow.set_tracking_uri(store)
    mlflow.set_experiment("stock")
    grid = {key: tune.grid_search(values) for key, values in study.grid.items()}
    seeds = {"replicate": tune.grid_search(list(range(study.replicates)))}
    tuner = tune.Tuner(
        ZOTrainable,
        param_space=study.config | grid | seeds | {"replicates": 1, "report_every": 1},
        run_config=tune.RunConfig(
            name="stock",
            storage_path=str(folder),
            verbose=0,
            callbacks=[MLflowLoggerCallback(store, experiment_name="stock")],
        ),
    )
    return _timed(tuner.fit)


def table(measurements: list[StudyTime]) -> Table:
    """Measurements for a person; what was to be reached stands beside what was."""
    from rich.table import Table

    shown = Table("what", title=f"studies on {CPUS} CPUs", title_justify="left")
    for column in ("seconds", "beside", "seconds", "", "", "to reach"):
        shown.add_column(column, justify="left" if column == "beside" else "right")
    for m in measurements:
        beside = f"{m.beside_seconds:.1f}" if m.beside else ""
        value = f"{m.value:.2f}" if m.figure else ""
        shown.add_row(m.what, f"{m.seconds:.1f}", m.beside, beside, m.figure, value, m.wanted)
    return shown
