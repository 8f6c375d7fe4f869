"""Designs that cannot decide a claim, whatever the runs show.

An exact test of n pairs has a smallest p, and Holm's correction multiplies it by the number of
claims. If that is above ``ALPHA``, the verdict is known before anything is run: undecided.
"""

from __future__ import annotations

from collections.abc import Sequence

from zotune.claims.claim import Claim
from zotune.claims.measures import ALPHA, MEASURES
from zotune.claims.signflip import holm

MOST = 64
"""Pairs up to which a design that can decide is looked for."""


def smallest_adjusted(claims: Sequence[Claim], pairs: Sequence[int]) -> list[float]:
    """The smallest p of each claim after Holm's correction, if all claims are as clear as can be.

    >>> claim = Claim(name="a", says="…", not_rising="q")
    >>> smallest_adjusted([claim] * 6, [6] * 6)[0], smallest_adjusted([claim] * 6, [8] * 6)[0]
    (0.1875, 0.046875)
    """
    smallest = (MEASURES[c.measure].smallest_p(n) for c, n in zip(claims, pairs, strict=True))
    return holm(list(smallest))


def fewest(claims: Sequence[Claim]) -> int:
    """The smallest number of judging pairs with which each of the claims can be decided.

    >>> claim = Claim(name="a", says="…", not_rising="q")
    >>> [fewest([claim] * number) for number in (1, 2, 3, 5, 6, 8)]
    [6, 7, 7, 8, 8, 9]
    """
    enough = (n for n in range(1, MOST) if _decides(claims, n))
    return next(enough, MOST)


def undecidable(claims: Sequence[Claim], pairs: Sequence[int]) -> dict[int, str]:
    """For each claim that cannot be decided, by its index, why.

    Args:
        claims: all claims of a study.
        pairs: for each of them, the number of replicates or instances that judge it.
    """
    found = {}
    for at, p in enumerate(smallest_adjusted(claims, pairs)):
        if p > ALPHA:
            what = "instances" if claims[at].across else "replicates"
            named = f"{len(claims)} claims" if len(claims) > 1 else "one claim"
            found[at] = (
                f"{pairs[at]} judging {what} cannot decide it: corrected for {named}, the "
                f"smallest possible p is {p:.2g}, above {ALPHA:g}"
            )
    return found


def _decides(claims: Sequence[Claim], pairs: int) -> bool:
    return max(smallest_adjusted(claims, [pairs] * len(claims)), default=0.0) <= ALPHA
