"""The measures (mean and median) by which settings are tuned and claims are judged.

Final losses are compared by the mean or the median of the logarithm of the loss above its minimum.
The same function, ``Measure.centre``, chooses the tuned value of a setting and gives the estimate
of a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from zotune.claims import signflip, signtest
from zotune.claims.claim import MEAN, MEDIAN
from zotune.claims.signflip import Matrix, Vector

ALPHA = 0.05
"""Error probability of verdicts, over all claims of a study at one step, and of intervals."""
RATIO, DIFFERENCE = "ratio", "difference"
"""Units of a difference: ratio of losses above the minimum, or difference of plain losses."""


@dataclass(frozen=True)
class Measure:
    """A centre of values, and the exact test and interval of paired differences about it."""

    centre: Callable[[Vector], float]
    p_all_above: Callable[[Matrix], float]
    p_some_below: Callable[[Matrix], float]
    evidence: Callable[[Matrix], Vector]
    """A score of how clearly each column is above 0; the lowest one decides a claim."""
    interval: Callable[[Vector], tuple[float, float]]
    smallest_p: Callable[[int], float]
    test: str
    """The name of the test."""
    assumes: str
    """Assumptions about the paired differences under which p and the interval are exact."""


def _mean(x: Vector) -> float:
    """The mean, without overflow if values are close to the largest number; inf if any is."""
    if np.isposinf(x).any():
        return inf
    largest = float(np.abs(x).max()) or 1.0
    return float((x / largest).mean()) * largest


def _median(x: Vector) -> float:
    """The median; NaN if its two middle values are infinite with opposite signs."""
    with np.errstate(invalid="ignore"):
        return float(np.median(x / 2) * 2)


MEASURES = {
    MEAN: Measure(
        centre=_mean,
        p_all_above=signflip.p_all_above,
        p_some_below=signflip.p_some_below,
        evidence=signflip.evidence,
        interval=signflip.interval,
        smallest_p=signflip.smallest_p,
        test="the sign-flip test",
        assumes="differences that are symmetric about their mean",
    ),
    MEDIAN: Measure(
        centre=_median,
        p_all_above=signtest.p_all_above,
        p_some_below=signtest.p_some_below,
        evidence=signtest.evidence,
        interval=signtest.interval,
        smallest_p=signtest.smallest_p,
        test="the sign test",
        assumes="nothing but that replicates are independent",
    ),
}


def comparable(
    losses: Sequence[Sequence[float]], minima: Sequence[float | None]
) -> tuple[str, list[Vector]]:
    """The unit of comparison, and the values of each run.

    Values are logarithms of losses above the minimum if it is known for all runs; else logarithms
    of losses if all are positive; else the losses themselves.
    """
    each = [np.asarray(run, np.float64) for run in losses]
    known = [minimum for minimum in minima if minimum is not None]
    if len(known) == len(each):
        least = [np.finfo(np.float64).eps * max(abs(minimum), 1e-290) for minimum in known]
        runs = zip(each, known, least, strict=True)
        return RATIO, [np.log(np.maximum(x - minimum, low)) for x, minimum, low in runs]
    if all((x > 0).all() for x in each):
        return RATIO, [np.log(x) for x in each]
    return DIFFERENCE, each
