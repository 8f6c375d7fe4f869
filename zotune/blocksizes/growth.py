"""Blocks that grow with the step's index."""

from __future__ import annotations

from math import ceil, log

from zotune.blocksizes import register


@register("growth", formula="min(most, ⌈first · factorᵗ⌉)")
def growth(t: int, *, first: float = 1, factor: float = 1.1, most: int = 100) -> int:
    """Small blocks while far away, larger ones later, whatever was measured.

    Geometric growth keeps the linear rate of a strongly convex function although every estimate is
    noisy. Byrd, Chin, Nocedal, Wu 2012.
    """
    if factor > 1 and t * log(factor) > log(max(most / first, 1)):
        return int(most)
    return ceil(first * factor**t)
