"""The text of a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from math import expm1, inf, isfinite

from zotune.claims.claim import MEAN
from zotune.claims.evidence import Evidence
from zotune.claims.measures import ALPHA, DIFFERENCE, MEASURES, RATIO

HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
LARGEST_LOG = 700.0
MANIFOLD = 10.0
"""Ratios above this are written as multiples instead of percentages."""


def as_share(value: float, unit: str) -> float:
    """A difference of logarithms as a share."""
    if unit == DIFFERENCE or not isfinite(value):
        return -1.0 if unit == RATIO and value == -inf else value
    return expm1(min(value, LARGEST_LOG))


def why(
    found: Evidence,
    word: str,
    shown: Sequence[float],
    odd: Sequence[str],
    tuning_cost: int | None = None,
) -> str:
    """One sentence on a verdict: the deciding pair, its difference, and caveats."""
    at, measure = found.decides, MEASURES[found.claim.measure]
    (lower, higher), (estimate, low, high) = found.names[at], shown
    side = "above" if estimate >= 0 else "below"
    amount = f"{_amount(abs(estimate), found.unit)} {side}"
    if found.unit == RATIO and estimate > MANIFOLD:
        amount = f"at {1 + estimate:.3g} times"
    centre = "" if found.claim.measure == MEAN else f" in the {found.claim.measure}"
    text = f"{higher} ends {amount} {lower}{centre}"
    if isfinite(high):  # there is no interval for too few pairs
        text += f" (95 % interval {_amount(low, found.unit)} to {_amount(high, found.unit)})"
    if len(found.differences) > 1:
        text += f", the one of {len(found.differences)} comparisons that decides"
    if found.claim.within is not None:
        text += f", where {_amount(found.claim.within, found.unit)} is allowed"
    if word == UNDECIDED:
        x, counted = found.differences[at], "instances" if found.claim.across else "replicates"
        so = int((x > -found.tolerances[at]).sum())
        text += f"; as claimed in {so} of {len(x)} {counted}"
        text += ", too few to decide anything" if measure.smallest_p(len(x)) > ALPHA else ""
    text += _about_outliers(odd, found.claim.measure)
    if found.remarks[at]:
        text += f"; {found.remarks[at]}"
    if tuning_cost:
        text += f"; tuning cost {tuning_cost:,} queries in runs that were not chosen"
    return text + "."


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
