"""Values that are added to the grid of a tuned setting before claims are judged.

The best of a coarse grid may be far from the best step: beside a limit of stability the next longer
step diverges, and everything between them was not tried. So a gap beside the best value is halved
until the neighbour ends nearly as low, or is near. Only replicates or instances that tune decide
this; those that judge are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite, log1p, sqrt
from typing import Any

import numpy as np

from zotune.claims.claim import Claim, Tuning
from zotune.claims.measures import MEASURES, Measure
from zotune.claims.runs import NOT_SEARCHED, Finals, Point, compared, key_of
from zotune.core.settings import flat
from zotune.errors import ConfigError

NEAR = 1.06
"""Ratio of two values up to which nothing is tried between them."""
HIGHER = log1p(0.05)
"""How much higher, as a difference of logarithms, a neighbour of the best value may end."""


def neighbours(values: Sequence[float], centres: Sequence[float]) -> list[int]:
    """Indices of the neighbours of the best value between which and it a better one may lie.

    >>> neighbours([1, 1.5, 2], [0.3, 0.1, float("inf")])
    [0, 2]
    >>> neighbours([1.45, 1.5, 1.55], [0.3, 0.1, float("inf")])
    []
    """
    best = int(np.argmin(centres))
    if not isfinite(centres[best]) or values[0] <= 0:
        return []
    beside = [at for at in (best - 1, best + 1) if 0 <= at < len(values)]
    return [
        at
        for at in beside
        if max(values[at] / values[best], values[best] / values[at]) > NEAR
        and centres[at] - centres[best] > HIGHER
    ]


def between(values: Sequence[float], centres: Sequence[float]) -> float | None:
    """The value to try next, of three digits: the middle of a gap beside the best; None if none.

    The gap above the best value comes first: while longer steps are better, the other one is moot.

    >>> between([1, 1.5, 2], [0.3, 0.1, float("inf")])
    1.73
    """
    best, beside = values[int(np.argmin(centres))], neighbours(values, centres)
    return float(f"{sqrt(values[beside[-1]] * best):.3g}") if beside else None


def refinement(
    runs: Iterable[Finals], tuning: Tuning | None, claims: Iterable[Claim]
) -> list[Point]:
    """The configurations that must still be run before claims are judged; empty if none.

    Each is a configuration of the runs with another value of the tuned setting, on every instance
    and for every replicate. Trials that are missing or have failed end the refinement.
    """
    if tuning is None or not tuning.refine:
        return []
    ended, found = list(runs), dict[str, Point]()
    for measure, across in dict.fromkeys((claim.measure, claim.across) for claim in claims):
        try:
            added = _added(ended, tuning, MEASURES[measure], across)
        except ConfigError:
            return []
        found |= {repr(sorted(point.items(), key=str)): point for point in added}
    return list(found.values())


def _added(runs: list[Finals], tuning: Tuning, measure: Measure, across: str | None) -> list[Point]:
    over = tuning.over
    groups: dict[Any, dict[float, float]] = {}
    for run in compared(runs, measure, across)[1]:
        centre = measure.centre(run.values[: tuning.replicates])
        groups.setdefault(key_of(run.config, (over,)), {})[float(run.config[over])] = centre
    left_out = (over, *NOT_SEARCHED, *filter(None, [across]))
    first: dict[Any, list[Point]] = {}
    for finals in runs:
        point = dict(flat(finals.config))
        same = first.setdefault(key_of(point, left_out), [])
        if not same or point[over] == same[0][over]:
            same.append(point)
    found = []
    for key, tried in groups.items():
        values = sorted(tried)
        value = between(values, [tried[one] for one in values])
        found += [point | {over: value} for point in first[key] if value is not None]
    return found
