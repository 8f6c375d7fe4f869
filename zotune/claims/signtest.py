"""The exact sign test of paired differences, and its interval for their median.

If the median of the differences is 0, the number of those above 0 among n is at most binomial with
probability ½, whatever the differences look like otherwise: no symmetry is assumed, and an outlier
counts as one difference like any other. The values θ that the test of x − θ does not reject are
those between two order statistics. Differences may be infinite: a run that diverged is worse than
any other, by an amount that means nothing.
"""

from __future__ import annotations

from math import comb

import numpy as np

from zotune.claims.signflip import ROUNDING, Matrix, Vector


def p_above(x: Vector) -> float:
    """One-sided p of "the median is not above 0" for paired differences x, (n,); ties are not."""
    known = np.abs(x[np.isfinite(x)])
    above = int((x > ROUNDING * known.max(initial=0.0)).sum())
    return _tail(len(x), len(x) - above)


def p_all_above(x: Matrix) -> float:
    """p of "not all columns are above 0", (n, k): the largest one, as each must be shown."""
    return max(p_above(column) for column in x.T)


def p_some_below(x: Matrix) -> float:
    """p of "no column is below 0", (n, k): the smallest one, times k (Bonferroni).

    Signs of many columns may depend on each other in any way, and this holds in all of them.
    """
    return min(1.0, len(x.T) * min(p_above(-column) for column in x.T))


def evidence(x: Matrix) -> Vector:
    """The number of entries above 0 minus those below, for each column of (n, k)."""
    more: Vector = np.sign(x).sum(axis=0)
    return more


def interval(x: Vector, alpha: float = 0.05) -> tuple[float, float]:
    """The θ that the two-sided test of x − θ does not reject; infinite if n is too small."""
    n, ordered = len(x), np.sort(x)
    k = sum(_tail(n, below) <= alpha / 2 for below in range(n // 2 + 1))
    return (float(ordered[k - 1]), float(ordered[n - k])) if k else (-np.inf, np.inf)


def smallest_p(n: int) -> float:
    """The smallest two-sided p that n replicates can give."""
    return 2 * _tail(n, 0)


def _tail(n: int, k: int) -> float:
    """P(X ≤ k) of a binomial X of n tries with probability ½."""
    return float(sum(comb(n, at) for at in range(k + 1)) / 2**n)
