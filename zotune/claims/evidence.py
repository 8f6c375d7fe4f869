"""The evidence for one claim, before p-values are adjusted for several claims.

A unit that has diverged is worse than any number. If one of them is compared, the claim is tested
by signs, in which only the order of each pair counts. The choice between the tests depends on the
sizes of differences and not on their signs, so both tests stay exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zotune.claims.claim import MEDIAN, Claim
from zotune.claims.comparing import Pair, label, pairs
from zotune.claims.fields import THEORY, Field
from zotune.claims.measures import DIFFERENCE, MEASURES, RATIO, Measure
from zotune.claims.runs import Compared
from zotune.claims.signflip import Vector
from zotune.errors import ConfigError

GUESSED = "L was estimated, so that the step is not the theory's; give L, or tune eta"


@dataclass(frozen=True)
class Contrast:
    """One comparison of a claim: two configurations, the first of which is to end lower."""

    names: tuple[str, str]
    differences: Vector
    """Of each unit, higher − lower; infinite where one has diverged, 0 where both have."""
    tolerance: float
    """How far below 0 a difference may be."""
    remark: str
    diverged: tuple[int, int]
    """Number of units in which each of the two has diverged."""
    means: tuple[float, float] | None
    """Arithmetic means of the two, if values are logarithms and none has diverged."""

    @property
    def shifted(self) -> Vector:
        """Differences with the tolerance; a pair that has diverged on both sides stays a tie."""
        tied = (self.differences == 0) if any(self.diverged) else np.zeros(1, bool)
        return np.where(tied, 0.0, self.differences + self.tolerance)


@dataclass(frozen=True)
class Evidence:
    """A claim's comparisons."""

    claim: Claim
    unit: str = RATIO
    compared: tuple[Contrast, ...] = ()
    measure: str = ""
    """The measure of the test: that of the claim, or the median if runs have diverged."""
    p_holds: float = 1.0
    p_fails: float = 1.0
    decides: int = 0
    """Index of the comparison with the weakest evidence for the claim."""
    problem: str | None = None

    @property
    def p(self) -> float:
        """The two-sided p-value, not adjusted."""
        return min(1.0, 2 * min(self.p_holds, self.p_fails))

    @property
    def deciding(self) -> Contrast:
        """The comparison with the weakest evidence for the claim."""
        return self.compared[self.decides]

    @property
    def is_censored(self) -> bool:
        """Whether a run of any comparison has diverged."""
        return any(any(one.diverged) for one in self.compared)


def evidence_of(claim: Claim, field: Field) -> Evidence:
    """The comparisons of a claim among the runs of a field."""
    points = field.points
    try:
        found = pairs(claim, points)
    except ConfigError as error:
        return Evidence(claim, problem=str(error))
    if field.scale == DIFFERENCE and claim.within is not None:
        return Evidence(claim, problem="losses are not all above 0, so a share has no meaning")
    if field.step == THEORY and any(field.runs[at].smoothness_estimated for at in _places(found)):
        return Evidence(claim, problem=GUESSED)
    named = [label(point, points) for point in points]
    compared = tuple(_compare(pair, named, field) for pair in found)
    name = MEDIAN if any(any(one.diverged) for one in compared) else claim.measure
    measure = MEASURES[name]
    shifted = np.stack([one.shifted for one in compared], axis=1)
    return Evidence(
        claim,
        unit=field.scale,
        compared=compared,
        measure=name,
        p_holds=measure.p_all_above(shifted),
        p_fails=measure.p_some_below(shifted),
        decides=_weakest(shifted, measure),
    )


def _weakest(shifted: np.ndarray, measure: Measure) -> int:
    clear = measure.evidence(shifted)
    centres = [np.nan_to_num(measure.centre(column)) for column in shifted.T]
    return min(range(len(clear)), key=lambda at: (clear[at], centres[at]))


def _compare(pair: Pair, named: list[str], field: Field) -> Contrast:
    lower, higher = field.runs[pair.lower], field.runs[pair.higher]
    lost = np.isinf(lower.values), np.isinf(higher.values)
    with np.errstate(invalid="ignore"):
        x = np.where(lost[0] & lost[1], 0.0, higher.values - lower.values)
    said = [f"{named[at]} at {field.remarks[at]}" for at in pair[:2] if at in field.remarks]
    counts = int(lost[0].sum()), int(lost[1].sum())
    means = (
        (_mean_of(lower), _mean_of(higher)) if field.scale == RATIO and not any(counts) else None
    )
    names = named[pair.lower], named[pair.higher]
    return Contrast(names, x, pair.tolerance, "; ".join(said), counts, means)


def _mean_of(run: Compared) -> float:
    """The arithmetic mean of values that are given as logarithms, without overflow."""
    largest = float(run.values.max())
    return float(np.exp(min(largest, 700.0)) * np.exp(run.values - largest).mean())


def _places(compared: list[Pair]) -> set[int]:
    """Indices of the runs that are compared."""
    return {at for pair in compared for at in (pair.lower, pair.higher)}
