"""The text of a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from math import expm1, isfinite

from zotune.claims.claim import MEAN
from zotune.claims.evidence import Evidence
from zotune.claims.measures import ALPHA, DIFFERENCE, MEASURES, RATIO

HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
LARGEST_LOG = 700.0
MANIFOLD = 10.0
"""Ratios above this are written as multiples instead of percentages."""
REVERSED = 0.005
"""Smaller estimates are too close to 0 to speak of an order."""


def as_share(value: float, unit: str) -> float:
    """A finite difference of logarithms as a share."""
    return value if unit == DIFFERENCE else expm1(min(value, LARGEST_LOG))


def why(
    found: Evidence,
    word: str,
    shown: Sequence[float],
    odd: Sequence[str],
    tuning_cost: int | None = None,
) -> str:
    """One sentence on a verdict: the deciding pair, its difference, and caveats."""
    decides, measure = found.deciding, MEASURES[found.measure]
    text = _difference(found, shown)
    if len(found.compared) > 1:
        text += f", the one of {len(found.compared)} comparisons that decides"
    if found.claim.within is not None:
        text += f", where {_amount(found.claim.within, found.unit)} is allowed"
    x, counted = decides.differences, "instances" if found.claim.across else "replicates"
    if word == UNDECIDED:
        so = int((decides.shifted > 0).sum())
        text += f"; as claimed in {so} of {len(x)} {counted}"
        text += ", too few to decide anything" if measure.smallest_p(len(x)) > ALPHA else ""
    text += _about_divergence(found, f"of {len(x)} {counted}")
    text += _about_means(found, shown[0])
    text += _about_outliers(odd, found.measure)
    if decides.remark:
        text += f"; {decides.remark}"
    if tuning_cost:
        text += f"; tuning cost {tuning_cost:,} queries in runs that were not chosen"
    return text + "."


def _difference(found: Evidence, shown: Sequence[float]) -> str:
    """How far apart the two configurations of the deciding pair end, with the interval."""
    (lower, higher), (estimate, low, high) = found.deciding.names, shown
    if not isfinite(estimate):
        return f"{higher if estimate > 0 else lower} diverges in the median"
    side = "above" if estimate >= 0 else "below"
    amount = f"{_amount(abs(estimate), found.unit)} {side}"
    if found.unit == RATIO and estimate > MANIFOLD:
        amount = f"at {1 + estimate:.3g} times"
    text = f"{higher} ends {amount} {lower}{_centre(found)}"
    if isfinite(low) or isfinite(high):  # there is no interval for too few pairs
        text += f" (95 % interval {_limit(low, found, lower)} to {_limit(high, found, higher)})"
    return text


def _centre(found: Evidence) -> str:
    """By which centre two configurations are compared, in words."""
    if found.measure != MEAN:
        return f" in the {found.measure}"
    return " in the geometric mean" if found.unit == RATIO else ""


def _limit(value: float, found: Evidence, whose: str) -> str:
    return _amount(value, found.unit) if isfinite(value) else f"{whose} diverging"


def _about_divergence(found: Evidence, of_all: str) -> str:
    """A clause on how often each side has diverged, and how that counts."""
    if not found.is_censored:
        return ""
    (lower, higher), counts = found.deciding.names, found.deciding.diverged
    which = f"{higher} in {counts[1]} {of_all}, {lower} in {counts[0]}"
    if not any(counts):
        which = "runs of other comparisons"
    return f"; diverged: {which} (the worst outcome, compared by the sign test)"


def _about_means(found: Evidence, estimate: float) -> str:
    """A clause if arithmetic means, which figures show, are ordered the other way round."""
    means = found.deciding.means
    if means is None or found.claim.across or not isfinite(estimate):
        return ""
    if (means[1] - means[0]) * estimate >= 0 or abs(estimate) < REVERSED:
        return ""
    lower, higher = found.deciding.names
    return (
        "; arithmetic means, which figures show, are the other way round: "
        f"{higher} {means[1]:.3g}, {lower} {means[0]:.3g}"
    )


def _about_outliers(odd: Sequence[str], measure: str) -> str:
    """A clause on outliers among the differences, and their effect on the test."""
    if not odd:
        return ""
    text = f"; {'outliers' if len(odd) > 1 else 'outlier'}: {', '.join(odd)}"
    if measure == MEAN:
        text += (
            f", so that p and interval, which assume {MEASURES[MEAN].assumes}, are rough "
            "(measure: median does not assume it)"
        )
    return text


def _amount(value: float, unit: str) -> str:
    if unit == DIFFERENCE or not isfinite(value):
        return f"{value:.3g}"
    if value > MANIFOLD:
        return f"{1 + value:.3g} times"
    return f"{100 * value:.2g} %" if abs(value) < 0.1 else f"{100 * value:.0f} %"
