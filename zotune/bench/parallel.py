"""Workers inside a run: speed beside one worker and beside peers, overhead, bytes, the limit.

Two functions take 20 ms: one sleeps, as a simulator elsewhere lets its caller wait; one computes.
Only the second needs as many free CPUs as there are workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil
from statistics import median
from time import perf_counter, process_time, sleep
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from zotune.bench.parallel_peers import installed
from zotune.clusters.own_ray import own_ray
from zotune.config import Config, parse_config
from zotune.core.state import State
from zotune.evaluators.ray_workers import RayWorkers, Reply, Worker
from zotune.iterates.parts import Parts
from zotune.loop import Loop
from zotune.objectives import Objective, objective
from zotune.runs.workers import own_workers, serve

if TYPE_CHECKING:
    from rich.table import Table

SECONDS = 0.02
"""Of one evaluation."""
Q, STEPS, DIM = 16, 5, 20
SECONDS_TO_GATHER = 600.0
"""For processes that import torch: 64 of them keep two CPUs busy for minutes."""
OURS = "zotune workers"


@dataclass(frozen=True)
class WorkerFigure:
    """One figure."""

    what: str
    who: str
    workers: int
    value: float
    unit: str


def sleeping(x: Tensor) -> float:
    """Lets its caller wait."""
    sleep(SECONDS)
    return float(x @ x)


def computing(x: Tensor) -> float:
    """Keeps a CPU busy, for so much of its time."""
    end = process_time() + SECONDS
    while process_time() < end:
        pass
    return float(x @ x)


def free(x: Tensor) -> float:
    """Costs nothing."""
    return 0.0


def parallel(
    *, rounds: int = 3, most: int = 64, on_case: Callable[[str], None] = lambda what: None
) -> Iterator[WorkerFigure]:
    """All figures, one after the other."""
    for fn in (sleeping, computing):
        on_case(f"two workers beside one: {fn.__name__}")
        yield from speed(fn, rounds)
    on_case("a function that costs nothing")
    yield from overhead(rounds)
    on_case("bytes of a step")
    yield from weights_of_steps()
    on_case(f"{most} sleeping workers")
    yield from limit(most)


def speed(fn: Callable[[Tensor], float], rounds: int) -> Iterator[WorkerFigure]:
    """Steps of 32 evaluations with one and two workers, in turns, and the same work of peers."""
    what = f"32 evaluations of 20 ms, {fn.__name__}"
    works: dict[str, Callable[[int], Any]] = {OURS: partial(_stepping, fn)} | {
        name: partial(peer, fn) for name, peer in installed().items()
    }
    for name, open_ in works.items():
        times: dict[int, list[float]] = {1: [], 2: []}
        with open_(1) as one, open_(2) as two:
            for step in (one, two):
                step()  # the first one waits for processes
            for _ in range(rounds):
                for workers, step in ((1, one), (2, two)):
                    times[workers].append(_seconds(step) / STEPS)
        pairs = zip(times[1], times[2], strict=True)
        for workers in (1, 2):
            yield WorkerFigure(what, name, workers, 1e3 * median(times[workers]), "ms a step")
        yield WorkerFigure(what, name, 2, median(a / b for a, b in pairs), "× one worker")


def overhead(rounds: int) -> Iterator[WorkerFigure]:
    """What a step and a query cost beside the evaluations."""
    for workers in (1, 2):
        for q in (1, 64):
            with _stepping(free, workers, q=q) as step:
                step()
                took = median(_seconds(step) / STEPS for _ in range(rounds))
            what = f"free function, {2 * q} evaluations"
            yield WorkerFigure(what, OURS, workers, 1e3 * took, "ms a step")
            yield WorkerFigure(what, OURS, workers, 1e6 * took / (2 * q), "µs a query")


def weights_of_steps() -> Iterator[WorkerFigure]:
    """Bytes that a step sends and gets, for both q and d."""
    for dim in (10, 1000, 100_000):
        for q in (4, 64):
            with _stepping(free, 1, q=q, dim=dim, kind=Weighed) as step:
                step()
                before = Weighed.sent_bytes
                step()
                each = (Weighed.sent_bytes - before) / STEPS
            yield WorkerFigure(f"d = {dim}, q = {q}, central", OURS, 1, each, "bytes a step")


def limit(most: int) -> Iterator[WorkerFigure]:
    """Queries a second of sleeping workers, two each a step, and what they could be at most.

    Workers follow the run, which costs each of them a little: with many of them this machine is
    full before the driver is. What the driver itself spends tells where it would be the limit.
    """
    what, workers = "sleeping 20 ms", 1
    while workers <= most:
        with _stepping(sleeping, workers, q=workers, share={"cpu": 1 / (2 * most)}) as step:
            step()
            began, queries = process_time(), 2 * workers * STEPS
            rate = queries / _seconds(step)
            driver = (process_time() - began) / queries
        yield WorkerFigure(what, OURS, workers, rate, "queries a second")
        yield WorkerFigure(what, OURS, workers, rate * SECONDS / workers, "of what they could")
        yield WorkerFigure(what, OURS, workers, 1e6 * driver, "µs of the driver a query")
        workers *= 4


@contextmanager
def _stepping(
    fn: Callable[[Tensor], float],
    workers: int,
    *,
    q: int = Q,
    dim: int = DIM,
    share: dict[str, float] | None = None,
    kind: type[RayWorkers] = RayWorkers,
) -> Iterator[Callable[[], None]]:
    """Five steps of a run with so many workers."""
    made = objective(fn, dim, name=fn.__name__)
    config = configuration(made, q, workers)
    used = {"cpu": 1.0, "gpu": 0.0} | (share or {"cpu": 0.5})
    with (
        own_ray(cpus=max(4, ceil(workers * used["cpu"]))),
        own_workers(workers, partial(_the, made), used, kind=kind) as pool,
    ):
        loop = Loop(config, made)
        serve(pool, loop)
        pool.gather(SECONDS_TO_GATHER)
        yield _Steps(loop)


def configuration(made: Objective, q: int, workers: int) -> Config:
    """A run of so large blocks; averages, because projections have at most d directions."""
    told = {"estimator": "avg", "q": q, "difference": "central", "update": "sgd"}
    told |= {"step": "constant", "eta": 1e-3, "budget": 10**9, "count": "directions"}
    named = {"problem": {"name": made.name, "dim": made.dim}, "workers": workers}
    return parse_config(told | named)


class _Steps:
    """Goes on with a run."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.state = loop, None

    loop: Loop
    state: State | None

    def __call__(self) -> None:
        state = self.loop.init() if self.state is None else self.state
        for _ in range(STEPS):
            state = self.loop.step(state)
        self.state = state


class Weighed(RayWorkers):
    """Workers whose messages are weighed."""

    sent_bytes = 0

    def _ask(self, worker: Worker, parts: Parts, taken: list[int]) -> None:
        from ray import cloudpickle

        if self._history is not None:
            message = self._history.news_for(worker.position, parts.count)[0], taken
            Weighed.sent_bytes += len(cloudpickle.dumps(message))  # type: ignore[no-untyped-call]
        super()._ask(worker, parts, taken)

    def _take(self, worker: Worker, reply: Reply, parts: list[int], deal: Any) -> None:
        from ray import cloudpickle

        Weighed.sent_bytes += len(cloudpickle.dumps(reply))  # type: ignore[no-untyped-call]
        super()._take(worker, reply, parts, deal)


def _the(made: Objective) -> Objective:
    return made


def _seconds(work: Callable[[], object]) -> float:
    torch.set_num_threads(1)
    start = perf_counter()
    work()
    return perf_counter() - start


def table(found: list[WorkerFigure]) -> Table:
    """The figures for a terminal."""
    from rich.table import Table

    shown = Table("work", "who", "workers", "figure", "unit")
    for one in found:
        shown.add_row(one.what, one.who, str(one.workers), f"{one.value:.4g}", one.unit)
    return shown
