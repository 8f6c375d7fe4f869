"""The exact sign-flip test of paired differences, its interval, and Holm's correction.

Under the null hypothesis a difference x_r of replicate r is as likely as −x_r, so all 2ⁿ patterns
of signs are equally likely. Flipping the signs of a set S of replicates leaves a sum at least as
large as the one seen if and only if Σ_S x ≤ 0. So p = (1 + number of sets with Σ_S x ≤ 0) / 2ⁿ, the
one being the empty set, and the values θ that the test of x − θ does not reject are those between
two of the sorted means over sets: an exact interval (Hartigan's typical values).

Both are exact only if the differences are symmetric about their mean. With one or two outliers on
one side among ten or fifteen, 95 % intervals covered the mean in only 48 to 87 % of simulations;
``signtest`` is exact in that case, too, for the median.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]

EXACT = 16
"""Replicates up to which every pattern of signs is tried; past it, 2¹⁶ − 1 drawn ones."""
ROUNDING = 1e-12


@lru_cache(maxsize=4)
def sets(n: int) -> Matrix:
    """Non-empty subsets of n replicates as rows of zeros and ones; random ones if too many."""
    if n <= EXACT:
        numbers = np.arange(1, 2**n)
        return (numbers[:, None] >> np.arange(n) & 1).astype(np.float64)
    drawn = np.random.default_rng([0, n]).integers(0, 2, (2**EXACT - 1, n)).astype(np.float64)
    return drawn[drawn.any(axis=1)]


def p_above(x: Vector) -> float:
    """One-sided p of "not above 0" for paired differences x, (n,)."""
    sums = sets(len(x)) @ x
    return float(1 + (sums <= ROUNDING * np.abs(x).sum()).sum()) / (1 + len(sums))


def p_all_above(x: Matrix) -> float:
    """p of "not all columns are above 0", (n, k): the largest one, as each must be shown."""
    return max(p_above(column) for column in x.T)


def p_some_below(x: Matrix) -> float:
    """p of "no column is below 0", (n, k): the lowest normalised sum against its flipped ones.

    A replicate's signs are flipped in all columns at once, so that their dependence is kept and
    many comparisons cost little.
    """
    norms = np.sqrt((x**2).sum(axis=0))
    scaled = x / np.where(norms > 0, norms, 1.0)
    seen = scaled.sum(axis=0)
    flipped = seen - 2 * (sets(len(x)) @ scaled)
    return float(1 + (flipped.min(axis=1) <= seen.min() + ROUNDING).sum()) / (1 + len(flipped))


def evidence(x: Matrix) -> Vector:
    """The normalised sum of each column of (n, k), a score of how clearly it is above 0."""
    sums: Vector = x.sum(axis=0) / np.maximum(np.sqrt((x**2).sum(axis=0)), 1e-300)
    return sums


def interval(x: Vector, alpha: float = 0.05) -> tuple[float, float]:
    """The θ that the two-sided test of x − θ does not reject; infinite if n is too small."""
    chosen = sets(len(x))
    means = np.sort(chosen @ x / chosen.sum(axis=1))
    k = int(alpha / 2 * (1 + len(means)))
    return (float(means[k - 1]), float(means[-k])) if k else (-np.inf, np.inf)


def smallest_p(n: int) -> float:
    """The smallest two-sided p that n replicates can give."""
    return 2 / (1 + len(sets(n)))


def holm(p: Sequence[float]) -> list[float]:
    """p-values adjusted so that one false rejection among all has at most its probability.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(p), 0.0
    for rank, at in enumerate(sorted(range(len(p)), key=lambda at: p[at])):
        highest = max(highest, min(1.0, (len(p) - rank) * p[at]))
        adjusted[at] = highest
    return adjusted
