"""The best block size by wall time, if workers evaluate in parallel.

A step of q directions takes as many rounds of queries as its evaluations need on N workers. Small
blocks leave workers idle; large ones cost budget. The rates of ``zotune plan`` grow with the number
of steps, so that the rate per second measures how fast a guarantee is reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from zotune.errors import ConfigError
from zotune.objectives import positive_int
from zotune.theory import geometric
from zotune.theory.plan_case import Case, Option
from zotune.theory.plan_words import spoken_time


@dataclass(frozen=True)
class Timed:
    """The option that reaches a guarantee first, compared with the one that spends least."""

    workers: int
    seconds_per_query: float
    estimator: str
    q: int
    seconds: float
    """Seconds for the whole budget."""
    idle: float
    """Share of the workers' time spent waiting for the end of a step."""
    thrifty_q: int
    """The best block size by budget alone."""
    thrifty_seconds: float
    faster: float
    """Speedup compared with ``thrifty_q``."""

    def __str__(self) -> str:
        who = f"{self.workers} workers" if self.workers > 1 else "one worker"
        first = (
            f"By the clock, with {who} and {self.seconds_per_query:g} s a call of f, "
            f"{self.estimator} with q = {self.q} reaches a guarantee first"
        )
        took = f"the budget takes {spoken_time(self.seconds)}, workers idle for {self.idle:.0%}"
        if self.q == self.thrifty_q:
            return f"{first}, as by the calls: {took}."
        return (
            f"{first}, {self.faster:.3g} times as fast as q = {self.thrifty_q}, which the bound "
            f"likes best by the calls: {took} (with q = {self.thrifty_q}: "
            f"{spoken_time(self.thrifty_seconds)})."
        )


def timed(case: Case, best: Option, workers: int, seconds_per_query: float) -> Timed:
    """The block size that reaches a guarantee first.

    Args:
        case: the input of the plan.
        best: the choice by budget alone.
        workers: the number of parallel workers.
        seconds_per_query: seconds per evaluation.
    """
    workers = positive_int("workers", workers)
    if not 0 < seconds_per_query < float("inf"):
        raise ConfigError(f"seconds per query must be above 0, got {seconds_per_query!r}")

    def seconds(option: Option) -> float:
        whole = case.budget.difference.evaluations(option.q)
        last = case.budget.difference.evaluations(option.last_block)
        rounds = (option.steps - 1) * ceil(whole / workers) + ceil(last / workers)
        return rounds * seconds_per_query

    options = [case.option(how, q) for how in case.methods for q in sizes(case, workers)]
    first = max(options, key=lambda o: (o.rate / seconds(o), -o.q))
    return Timed(
        workers=workers,
        seconds_per_query=float(seconds_per_query),
        estimator=first.estimator,
        q=first.q,
        seconds=seconds(first),
        idle=1 - first.evaluations * seconds_per_query / (workers * seconds(first)),
        thrifty_q=best.q,
        thrifty_seconds=seconds(best),
        faster=first.rate / seconds(first) / (best.rate / seconds(best)),
    )


def sizes(case: Case, workers: int) -> list[int]:
    """Candidate block sizes: those that fill whole rounds, and a logarithmic grid."""
    affordable = case.budget.difference.affordable
    grid = geometric(1, case.most, points=65)
    rounds = geometric(1, max(1, 2 * case.most // workers), points=33)
    full = [affordable(k * workers) for k in rounds]
    return sorted({q for q in (*grid, *full) if 1 <= q <= case.most})
