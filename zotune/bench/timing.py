"""Interleaved timing: machines are noisy, so only ratios of neighbours mean anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from time import process_time

Work = Callable[[], object]


def cpu_seconds(work: Work, repeats: int) -> float:
    """CPU time of one call, over so many."""
    start = process_time()
    for _ in range(repeats):
        work()
    return (process_time() - start) / repeats


def interleave(
    works: Mapping[str, Work], *, rounds: int = 7, seconds: float = 0.3
) -> dict[str, list[float]]:
    """CPU time a call of each work, in turns, so that a slow moment hits all of them.

    Args:
        works: what to time, by name.
        rounds: turns.
        seconds: about how long one work's turn takes.
    """
    repeats = {}
    for name, work in works.items():
        once = cpu_seconds(work, 1)
        once = min(once, cpu_seconds(work, 1))
        repeats[name] = max(1, round(seconds / max(once, 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(cpu_seconds(work, repeats[name]))
    return times


def ratio(times: Mapping[str, list[float]], of: str, to: str) -> float:
    """The median over rounds of one work's time over another's."""
    return median(a / b for a, b in zip(times[of], times[to], strict=True))
