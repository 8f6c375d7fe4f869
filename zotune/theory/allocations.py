"""Allocations: the sizes of a run's blocks, and sums over its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import log

from zotune.core.budget import Budget, Ledger


@dataclass(frozen=True)
class Allocation:
    """The sizes q_0 … q_{T−1} of a run's blocks, run-length encoded.

    >>> Allocation.of([5, 5, 5, 2])
    Allocation(runs=((5, 3), (2, 1)))
    >>> from zotune.core.differences import get_difference
    >>> Allocation.constant(5, Budget(20, "evaluations", get_difference("forward")))
    Allocation(runs=((5, 3), (1, 1)))
    """

    runs: tuple[tuple[int, int], ...]
    """(q, how many steps in a row), in order."""

    @classmethod
    def of(cls, blocks: Iterable[int]) -> Allocation:
        """The allocation of a sequence of block sizes."""
        return cls(tuple((q, len(list(same))) for q, same in groupby(blocks)))

    @classmethod
    def constant(cls, q: int, budget: Budget) -> Allocation:
        """Blocks of q until the budget is spent; the last one shrinks to what is left."""
        times = budget.limit // budget.cost(q)
        spent = Ledger(times * q, times * budget.difference.evaluations(q))
        rest = budget.block(spent, q)
        return cls(tuple(run for run in ((q, times), (rest, 1)) if 0 not in run))

    @property
    def steps(self) -> int:
        """T."""
        return sum(times for _, times in self.runs)

    @property
    def queries(self) -> int:
        """Σ q_t."""
        return sum(q * times for q, times in self.runs)

    def total(self, value: Callable[[int], float]) -> float:
        """Σ value(q_t)."""
        return sum(times * value(q) for q, times in self.runs)

    def decayed(self, value: Callable[[int], float], power: float) -> float:
        """Σ value(q_t) / (t + 1)^power."""
        return sum(value(q) * _decay(start, stop, power) for q, start, stop in self.spans())

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """Each q with the steps it is used in, from and up to."""
        start = 0
        for q, times in self.runs:
            yield q, start, start + times
            start += times


def _decay(start: int, stop: int, power: float) -> float:
    """Σ (t + 1)^−power over start ≤ t < stop; Euler and Maclaurin's formula past t = 32."""
    split = min(stop, max(start, 32))
    head: float = sum((t + 1.0) ** -power for t in range(start, split))
    return head + _tail(split + 1.0, float(stop), power) if split < stop else head


def _tail(first: float, last: float, power: float) -> float:
    """Σ n^−power over first ≤ n ≤ last, by the integral and the derivatives at its ends."""
    r = 1 - power
    area = log(last / first) if r == 0 else (last**r - first**r) / r
    ends = (first**-power + last**-power) / 2
    slopes = power * (first ** (-power - 1) - last ** (-power - 1))
    bends = power * (power + 1) * (power + 2) * (first ** (-power - 3) - last ** (-power - 3))
    total: float = area + ends + slopes / 12 - bends / 720
    return total
