"""Compare the end of a descent under noise with its start, with evaluations reserved for that."""

from __future__ import annotations

from collections.abc import Sequence

from zotune.methods.parts.noise import FEWEST, RANKED, race
from zotune.methods.parts.oracle import Oracle, Stage, Vector
from zotune.methods.start import Start

RESERVE, COMPARED = 0.1, 3 * (RANKED + 1)
"""Share of the budget reserved to compare a noisy result with the start, and the least number of
evaluations: enough to rank three points with certainty if one evaluation of each fails."""
TWO, THREE = 2 * FEWEST, 3 * FEWEST
"""Evaluations that comparing two or three points needs; a small budget reserves a quarter of it, or
one of these."""


def reserved(o: Oracle) -> int:
    """How many of the remaining evaluations are reserved for the comparison."""
    return max(int(RESERVE * o.left), min(COMPARED, max(o.left // 4, TWO)))


def answered(o: Oracle, start: Start, points: Sequence[Vector]) -> Stage[str]:
    """Spend the rest on these points, the first of them the start; the best is the answer."""
    point, f, deviation = yield from race(o, points)
    o.answer = point, f
    start.choose("noise", f"{deviation:.2g}", f"values of the answer differ by {deviation:.2g}")
    return ""
