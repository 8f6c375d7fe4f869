"""Trials that are one run made twice, and no replicates of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Trial = TypeVar("Trial")


def without_copies(
    trials: Sequence[Trial], *, same: Callable[[Trial], str], spent: Callable[[Trial], float]
) -> list[Trial]:
    """One trial of each kind of ``same``, the one that went furthest, in their order.

    >>> without_copies(["a5", "b2", "a7"], same=lambda t: t[0], spent=lambda t: int(t[1]))
    ['b2', 'a7']
    """
    furthest: dict[str, int] = {}
    for at, trial in enumerate(trials):
        kept = furthest.setdefault(same(trial), at)
        if spent(trial) > spent(trials[kept]):
            furthest[same(trial)] = at
    return [trials[at] for at in sorted(furthest.values())]
