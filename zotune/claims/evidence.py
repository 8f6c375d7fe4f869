"""The evidence for one claim, before p-values are adjusted for several claims."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zotune.claims.claim import Claim
from zotune.claims.comparing import Pair, label, pairs
from zotune.claims.measures import DIFFERENCE, MEASURES, RATIO
from zotune.claims.runs import THEORY, Field
from zotune.claims.signflip import Vector
from zotune.errors import ConfigError

GUESSED = "L was estimated, so that the step is not the theory's; give L, or tune eta"


@dataclass(frozen=True)
class Evidence:
    """A claim's comparisons."""

    claim: Claim
    unit: str = RATIO
    differences: tuple[Vector, ...] = ()
    """For each pair, higher − lower."""
    tolerances: tuple[float, ...] = ()
    """How far below 0 a difference may be, for each pair."""
    names: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()
    p_holds: float = 1.0
    p_fails: float = 1.0
    decides: int = 0
    """Index of the pair with the weakest evidence for the claim."""
    problem: str | None = None

    @property
    def p(self) -> float:
        """The two-sided p-value, not adjusted."""
        return min(1.0, 2 * min(self.p_holds, self.p_fails))


def evidence_of(claim: Claim, field: Field) -> Evidence:
    """The comparisons of a claim among the runs of a field."""
    points = field.points
    try:
        compared = pairs(claim, points)
    except ConfigError as error:
        return Evidence(claim, problem=str(error))
    if field.scale == DIFFERENCE and claim.within is not None:
        return Evidence(claim, problem="losses are not all above 0, so a share has no meaning")
    if field.step == THEORY and any(
        field.runs[at].smoothness_estimated for at in _places(compared)
    ):
        return Evidence(claim, problem=GUESSED)
    measure, runs = MEASURES[claim.measure], field.runs
    differences = [runs[pair.higher].values - runs[pair.lower].values for pair in compared]
    shifted = np.stack(
        [x + pair.tolerance for x, pair in zip(differences, compared, strict=True)], axis=1
    )
    clear = measure.evidence(shifted)
    named = [label(point, points) for point in points]
    return Evidence(
        claim,
        unit=field.scale,
        differences=tuple(differences),
        tolerances=tuple(pair.tolerance for pair in compared),
        names=tuple((named[pair.lower], named[pair.higher]) for pair in compared),
        remarks=tuple(_remark(pair, named, field) for pair in compared),
        p_holds=measure.p_all_above(shifted),
        p_fails=measure.p_some_below(shifted),
        decides=min(range(len(clear)), key=lambda at: (clear[at], measure.centre(shifted[:, at]))),
    )


def _places(compared: list[Pair]) -> set[int]:
    """Indices of the runs that are compared."""
    return {at for pair in compared for at in (pair.lower, pair.higher)}


def _remark(pair: Pair, named: list[str], field: Field) -> str:
    said = [f"{named[at]} at {field.remarks[at]}" for at in pair[:2] if at in field.remarks]
    return "; ".join(said)
