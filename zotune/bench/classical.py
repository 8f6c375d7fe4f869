"""Speed of the core: the time of a step relative to the bare objective and the bare draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import torch

from zotune.bench.peers import OPEN_ES, installed
from zotune.bench.timing import Work, interleave, ratio
from zotune.config import parse_config
from zotune.core.differences import CENTRAL, FORWARD
from zotune.core.names import RUNNING
from zotune.loop import Loop
from zotune.objectives import Objective, build_problem
from zotune.objectives.quadratic import Quadratic

if TYPE_CHECKING:
    from rich.table import Table

REPLICATES = 10
PEER_SIZES = (10, 100)
BARE = "bare loop"
PAIRS = "avg in pairs"
"""Central differences along half as many directions, as Open_ES has them."""
BUDGET = 20_000
TOGETHER = 60
"""Queries that are timed together: a run makes one step after the other."""
WANTED = {
    ("quadratic", "avg"): {1: 1.10, 10: 1.10, 100: 1.10},
    ("quadratic", "align"): {1: 1.35, 10: 1.35, 100: 1.35, 1000: 1.9},
}


@dataclass(frozen=True)
class StepTime:
    """One configuration compared with its limit."""

    problem: str
    estimator: str
    q: int
    ratio: float
    """CPU time of a step over that of the raw objective and the raw draws on the same shapes."""
    wanted: float | None
    step_ms: float
    us_per_query: float
    """CPU microseconds a query of one replicate."""
    us_per_evaluation: float
    """The same for one value of f: pairs of points share a direction, and x comes on top."""


def limit(objective: Objective, q: int) -> Work:
    """f at every point of a step, and the float32 normal draws of its directions; nothing else."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(REPLICATES * (q + 1), objective.dim, generator=generator).double()
    draws = torch.empty(REPLICATES, q, objective.dim)

    def work() -> object:
        draws.normal_(generator=generator)
        return objective.values(points)

    return work


def steps(
    objective: Objective, estimator: str, q: int, count: int = 1, difference: str = FORWARD
) -> Work:
    """Some steps of the loop, as a run makes them; a new run begins where one ends."""
    settings = {"estimator": estimator, "q": q, "difference": difference}
    settings |= {"update": "sgd", "step": "theory", "count": "directions"}
    config = parse_config(settings | {"budget": BUDGET, "replicates": REPLICATES})
    loop = Loop(config, objective)
    state = start = loop.init()

    def work() -> object:
        nonlocal state
        if loop.status(state) != RUNNING:
            state = start
        state = loop.advance(state, loop.spent(state) + count * q)
        return state

    return work


def bare(objective: Objective, q: int, *, mu: float = 1e-6, eta: float = 1e-9) -> Work:
    """What a loop of averaging steps can reach: draws from one generator, nothing counted or kept.

    Any stream of steps in float64 has to widen its draws, place its points and move.
    """
    generator = torch.Generator().manual_seed(0)
    draws = torch.empty(REPLICATES, q, objective.dim)
    rows = draws.double()
    points = torch.empty(REPLICATES, q + 1, objective.dim, dtype=torch.float64)
    center, sides = points[:, :1], points[:, 1:]
    x = objective.start().expand(REPLICATES, -1).contiguous()[:, None]

    def work() -> object:
        nonlocal x
        rows.copy_(draws.normal_(generator=generator))
        center.copy_(x)
        torch.add(x, rows, alpha=mu, out=sides)
        values = objective.values(points.flatten(0, 1)).view(REPLICATES, q + 1)
        v = (values[:, 1:] - values[:, :1]).div_(mu)
        x = torch.baddbmm(x, v[:, None], rows, alpha=-eta / q)
        return x

    return torch.no_grad()(work)


def repeated(work: Work, count: int) -> Work:
    """The same work so many times."""

    def works() -> None:
        for _ in range(count):
            work()

    return works


def classical(
    *,
    dim: int = 1000,
    block_sizes: tuple[int, ...] = (1, 10, 100, 1000),
    rounds: int = 41,
    on_case: Callable[[str], None] = lambda case: None,
) -> Iterator[StepTime]:
    """Measure every problem, estimator and q, one thread, ten replicates."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name in ("quadratic", "rosenbrock"):
            objective = build_problem({"name": name, "dim": dim})
            for q in block_sizes:
                on_case(f"{name} q={q}")
                yield from _case(name, objective, q, rounds)
    finally:
        torch.set_num_threads(threads)


def _case(name: str, objective: Objective, q: int, rounds: int) -> Iterator[StepTime]:
    count = max(1, TOGETHER // q)
    works = {BARE: repeated(bare(objective, q), count)}
    works |= {estimator: steps(objective, estimator, q, count) for estimator in ("avg", "align")}
    if isinstance(objective, Quadratic) and q in PEER_SIZES:
        works |= {
            peer: repeated(make(objective, q, REPLICATES), count)
            for peer, make in installed().items()
        }
        works[PAIRS] = steps(objective, "avg", q // 2, count, CENTRAL)
    limits = {"limit": repeated(limit(objective, q), count)}
    times = interleave(limits | works, rounds=rounds, seconds=0.05)
    for estimator in works:
        step = median(times[estimator]) / count
        evaluations = q if estimator in (PAIRS, OPEN_ES) else q + 1
        yield StepTime(
            problem=name,
            estimator=estimator,
            q=q,
            ratio=ratio(times, estimator, "limit"),
            wanted=WANTED.get((name, estimator), {}).get(q),
            step_ms=1e3 * step,
            us_per_query=1e6 * step / (q * REPLICATES),
            us_per_evaluation=1e6 * step / (evaluations * REPLICATES),
        )


def table(measurements: list[StepTime]) -> Table:
    """Measurements for a person; what was to be reached stands beside what was."""
    from rich.table import Table

    shown = Table("problem", "estimator", title="CPU time of a step over its limit", pad_edge=False)
    for column in ("q", "ratio", "to reach", "ms", "µs/query", "µs/value"):
        shown.add_column(column, justify="right")
    for m in measurements:
        wanted = "" if m.wanted is None else f"{m.wanted:.2f}"
        took = (f"{n:.3g}" for n in (m.step_ms, m.us_per_query, m.us_per_evaluation))
        shown.add_row(m.problem, m.estimator, str(m.q), f"{m.ratio:.2f}", wanted, *took)
    return shown
