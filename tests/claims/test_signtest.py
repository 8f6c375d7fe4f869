"""The sign test: exact about medians where the sign-flip interval of means covers too little."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from zotune.claims import signflip, signtest
from zotune.claims.outliers import outliers

numbers = st.floats(-100, 100).map(lambda x: round(x, 3))
differences = st.integers(2, 15).flatmap(lambda n: arrays(np.float64, n, elements=numbers))


def coverage(share: float, n: int, studies: int = 300) -> tuple[float, float]:
    """How often the 95 % interval holds the mean, by sign flips, and the median, by the sign test.

    Differences are narrow about 0, but for a share of outliers, all on one side: as the runs with
    q = d and Gaussian directions have them.
    """
    rng, far, narrow = np.random.default_rng([7, n]), 3.0, 0.01
    mean, median = share * far, NormalDist(0, narrow).inv_cdf(0.5 / (1 - share))
    covered = np.zeros(2)
    for _ in range(studies):
        x = rng.normal(0, narrow, n) + far * (rng.random(n) < share)
        (low, high), (least, most) = signflip.interval(x), signtest.interval(x)
        covered += (low <= mean <= high, least <= median <= most)
    flips, signs = covered / studies
    return float(flips), float(signs)


@pytest.mark.parametrize(("share", "n"), [(1 / 15, 15), (1 / 15, 10), (2 / 15, 10)])
def test_one_sided_outliers_leave_means_uncovered_and_medians_covered(share: float, n: int) -> None:
    flips, signs = coverage(share, n)
    assert flips < 0.8
    assert signs >= 0.95


def test_p_is_that_of_scipy_s_binomial_test() -> None:
    stats = pytest.importorskip("scipy.stats")
    x = np.random.default_rng(1).normal(0.4, 1.0, 15)
    theirs = stats.binomtest(int((x > 0).sum()), 15, alternative="greater")
    assert signtest.p_above(x) == pytest.approx(theirs.pvalue)
    assert signtest.smallest_p(15) == 2 / 2**15


@given(differences, st.floats(-50, 50))
@settings(max_examples=100, deadline=None)
def test_the_interval_has_the_values_that_the_test_does_not_reject(
    x: np.ndarray, value: float
) -> None:
    low, high = signtest.interval(x, alpha=0.2)
    if np.abs(x - value).min() < 1e-6:
        return
    rejected = min(signtest.p_above(x - value), signtest.p_above(value - x)) <= 0.1
    assert rejected == (not low <= value <= high)


def test_ties_are_on_neither_side() -> None:
    x = np.array([0.0] * 5 + [1.0] * 5)
    assert signtest.p_above(x) > 0.5
    assert signtest.p_above(-x) == 1.0
    assert signtest.p_above(np.zeros(4)) == 1.0


def test_few_replicates_have_no_interval() -> None:
    assert signtest.interval(np.arange(5.0)) == (-np.inf, np.inf)
    assert signtest.interval(np.arange(6.0)) == (0.0, 5.0)


def test_the_worst_of_many_dependent_comparisons_keeps_its_level() -> None:
    rng = np.random.default_rng(3)
    null = rng.normal(size=(600, 12, 1)) + rng.normal(size=(600, 12, 8))
    skewed = np.exp(null) - 1  # medians stay 0, means do not
    assert sum(signtest.p_some_below(x) <= 0.05 for x in skewed) / 600 <= 0.05 + 0.027
    clear = np.where(np.arange(8) == 7, -1.0, 1.0) * np.ones((12, 1))
    assert signtest.p_some_below(clear) == 8 / 4096


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([1.0, 1.1, 0.9, 1.05, 0.95, 1.02], []),
        ([1.0, 1.1, 0.9, 1.05, 0.95, 9.0], [5]),
        ([1.0, 1.1, 0.9, 1.05, 0.95, 9.0, -9.0], [5, 6]),
        ([1.0] * 9 + [2.0], [9]),
        ([1.0] * 10, []),
        ([0.0] * 10, []),
    ],
)
def test_outliers_are_far_from_the_others_in_units_of_their_own_spread(
    x: list[float], expected: list[int]
) -> None:
    assert outliers(np.array(x)) == expected
    assert outliers(1e-9 * np.array(x)) == expected


def test_normal_differences_are_seldom_called_outliers() -> None:
    draws = np.random.default_rng(4).normal(size=(500, 15))
    assert sum(len(outliers(x)) for x in draws) / draws.size < 0.02
