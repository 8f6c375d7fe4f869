"""One case of ``zotune bench scale``, in a process of its own."""

from __future__ import annotations

import json
import logging
import os
import resource
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

from ray import tune
from ray.tune.experiment import Trial

from zotune.bench.scale import DIMENSION, LAUNCHES, OURS, REPLICATES, ScaleFigures
from zotune.core.processes import stoppable
from zotune.study import Study
from zotune.study.quiet import ray_running, silence

MEGABYTE = 2**20
NAME = "scale"
MOST_COUNTED = 100
"""Trials by which a rate is measured, at most."""


class TrialTimes(tune.Callback):
    """Notes when trials begin and end, and the memory of this process."""

    def __init__(self) -> None:
        self.began: list[float] = []
        self.ended: list[float] = []
        self.megabytes: list[float] = []

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Note the time."""
        self.began.append(monotonic())

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Note the time and the memory."""
        self.ended.append(monotonic())
        self.megabytes.append(megabytes())

    def __deepcopy__(self, memo: dict[int, Any]) -> TrialTimes:
        """Tune copies its callbacks; all of them write to this one."""
        return self


def megabytes() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def study_of(case: str, trials: int) -> Study:
    """The study of a case: many small trials, or few large ones."""
    problem: dict[str, Any] = {"name": "quadratic", "dim": 20}
    changes: dict[str, Any] = {"budget": 200, "replicates": 1}
    settings: dict[str, Any] = {}
    if case == REPLICATES:
        problem["dim"], changes = 1000, {"budget": 200, "replicates": 1000}
    if case == DIMENSION:
        problem, changes = {"name": "rosenbrock", "dim": 10**6}, {"budget": 16, "replicates": 1}
        settings["L"] = 5000.0  # so that it is not worked out, which takes a minute at this size
    return Study(
        name=NAME,
        problem=problem,
        count="directions",
        space={"eta": [k / trials for k in range(1, trials + 1)]},
        fixed={"estimator": "avg", "q": 4, "update": "sgd", "step": "theory", "mu": 1e-6}
        | settings,
        search={"algorithm": "grid"},
        scheduler="none",
        **changes,
    )


def run_ours(study: Study, pace: TrialTimes, store: str, folder: Path, launches: int) -> None:
    """The study as ``zotune run`` runs it."""
    for _ in range(launches):
        results = study.run(tracking_uri=store, storage_path=folder, callbacks=[pace])
        if results.errors:
            raise results.errors[0]


def run_stock(study: Study, pace: TrialTimes, store: str, folder: Path) -> None:
    """The same trials with Ray's Tuner, its default loggers and its MLflow callback."""
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    import mlflow
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    from zotune.tune.trainables import ZOTrainable

    mlflow.set_tracking_uri(store)
    mlflow.set_experiment(NAME)
    grid = {key: tune.grid_search(values) for key, values in study.grid.items()}
    tuner = tune.Tuner(
        tune.with_resources(ZOTrainable, {"cpu": 1}),
        param_space=study.config | grid,
        run_config=tune.RunConfig(
            name=NAME,
            storage_path=str(folder),
            verbose=0,
            callbacks=[pace, MLflowLoggerCallback(store, experiment_name=NAME)],
        ),
    )
    results = tuner.fit()
    if results.errors:
        raise results.errors[0]


def reported(store: str, folder: Path) -> float:
    """Seconds for reading the newest launch back and writing its report."""
    from zotune.reporting.report import build
    from zotune.results.store import Store

    start = monotonic()
    build(Store.open(store).read(NAME)).write(folder / "report")
    return monotonic() - start


def rate(times: Sequence[float]) -> float:
    """Events a second between the first and the last."""
    passed = times[-1] - times[0]
    return (len(times) - 1) / passed if passed > 0 else 0.0


def bytes_of(folder: Path) -> int:
    """Of all files below a folder."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())


def rows_of(database: Path) -> tuple[int, int]:
    """Runs of trials that have ended, and points of curves."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
        runs = opened.execute(
            "select count(*) from runs where status = 'FINISHED' and run_uuid not in (select "
            "run_uuid from tags where key = 'zotune.kind' and value = 'summary')"
        ).fetchone()[0]
        rows = opened.execute("select count(*) from metrics").fetchone()[0]
    return int(runs), int(rows)


def measure(case: str, way: str, trials: int, folder: Path) -> ScaleFigures:
    """Run a case in a folder, and say what it took."""
    launches = trials if case == LAUNCHES else 1
    study = study_of(case, 1 if case == LAUNCHES else trials)
    database, pace = folder / "mlflow.db", TrialTimes()
    store, files = f"sqlite:///{database}", folder / "files"
    silence()
    with stoppable() as stop, ray_running():
        stop.listen()
        if way == OURS:
            run_ours(study, pace, store, files, launches)
        else:
            run_stock(study, pace, store, files)
    disk = bytes_of(files)
    seconds = reported(store, folder) if way == OURS else 0.0
    counted = min(MOST_COUNTED, max(2, len(pace.ended) // 10))
    runs, rows = rows_of(database)
    return ScaleFigures(
        case=case,
        way=way,
        trials=trials,
        seconds=pace.ended[-1] - pace.began[0],
        early=rate(pace.ended[: counted + 1]),
        late=rate(pace.ended[-counted - 1 :]),
        first_megabytes=pace.megabytes[0],
        last_megabytes=pace.megabytes[-1],
        report_seconds=seconds,
        report_megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        disk_megabytes=disk / MEGABYTE,
        store_megabytes=database.stat().st_size / MEGABYTE,
        runs=runs,
        rows=rows,
    )


def main(case: str, way: str, trials: str, answer: str) -> None:
    """Measure a case in this folder and write the answer."""
    from dataclasses import asdict

    found = measure(case, way, int(trials), Path.cwd())
    Path(answer).write_text(json.dumps(asdict(found)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
