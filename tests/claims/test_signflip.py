"""The sign-flip test: exact, and the same as others' and as counting by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from zotune.claims.signflip import (
    EXACT,
    holm,
    interval,
    p_above,
    p_all_above,
    p_some_below,
    sets,
    smallest_p,
)

numbers = st.floats(-100, 100).map(lambda x: round(x, 3))
differences = st.integers(2, 9).flatmap(lambda n: arrays(np.float64, n, elements=numbers))


@given(differences)
@settings(max_examples=60, deadline=None)
def test_p_is_the_share_of_sign_patterns_with_a_sum_as_large(x: np.ndarray) -> None:
    sums = [float(np.dot(signs, x)) for signs in product((1, -1), repeat=len(x))]
    as_large = sum(s >= x.sum() - 1e-9 for s in sums)
    assert p_above(x) == pytest.approx(as_large / len(sums))


def test_p_is_that_of_scipy_s_permutation_test() -> None:
    stats = pytest.importorskip("scipy.stats")
    x = np.random.default_rng(1).normal(0.4, 1.0, 10)
    theirs = stats.permutation_test(
        (x,), np.mean, permutation_type="samples", alternative="greater", n_resamples=np.inf
    )
    assert p_above(x) == pytest.approx(theirs.pvalue)


@given(differences, st.floats(0.1, 10))
@settings(max_examples=60, deadline=None)
def test_p_knows_neither_units_nor_the_order_of_replicates(x: np.ndarray, unit: float) -> None:
    assert p_above(x * unit) == p_above(x) == p_above(x[::-1])


@given(differences)
@settings(max_examples=60, deadline=None)
def test_both_sides_are_mirror_images(x: np.ndarray) -> None:
    assert p_some_below(x[:, None]) == pytest.approx(p_above(-x))


@given(differences, st.floats(-50, 50))
@settings(max_examples=100, deadline=None)
def test_the_interval_has_the_values_that_the_test_does_not_reject(
    x: np.ndarray, value: float
) -> None:
    low, high = interval(x, alpha=0.2)
    if min(abs(value - low), abs(value - high)) < 1e-6:
        return
    rejected = min(p_above(x - value), p_above(value - x)) <= 0.1
    assert rejected == (not low <= value <= high)


def test_few_replicates_have_no_interval() -> None:
    assert interval(np.array([1.0, 2.0, 3.0])) == (-np.inf, np.inf)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_without_a_difference_p_is_below_alpha_in_at_most_a_share_alpha(alpha: float) -> None:
    rng = np.random.default_rng(2)
    studies, tries = rng.standard_t(2, (3000, 8)), 3000
    small = sum(2 * min(p_above(x), p_above(-x)) <= alpha for x in studies)
    assert small / tries <= alpha + 3 * np.sqrt(alpha / tries)
    assert small / tries >= alpha - 0.02


def test_the_worst_of_many_comparisons_keeps_its_level_and_its_power() -> None:
    rng = np.random.default_rng(3)
    shared = rng.normal(size=(800, 10, 1))
    null = shared + rng.normal(size=(800, 10, 20))
    assert sum(p_some_below(x) <= 0.05 for x in null) / 800 <= 0.05 + 0.023
    clear = null[0] * 0.01 + np.where(np.arange(20) == 7, -1.0, 1.0)
    assert p_some_below(clear) == pytest.approx(2 / 1024)


def test_all_must_be_above() -> None:
    x = np.stack([np.arange(1.0, 7), np.array([1.0, -1, 1, 1, 1, 1])], axis=1)
    assert p_above(x[:, 0]) == 1 / 64
    assert p_all_above(x) == p_above(x[:, 1]) == 7 / 64


def test_many_replicates_are_tried_with_drawn_signs() -> None:
    n = EXACT + 14
    assert len(sets(n)) <= 2**EXACT
    assert p_above(np.full(n, 1.0)) == pytest.approx(smallest_p(n) / 2)
    assert p_above(np.array([1.0, -1.0] * (n // 2))) > 0.3


def test_ten_replicates_cannot_go_below_two_in_1024() -> None:
    assert smallest_p(10) == 2 / 1024


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_a_p_and_keeps_their_order(p: list[float]) -> None:
    adjusted = holm(p)
    assert all(a >= b for a, b in zip(adjusted, p, strict=True))
    order = sorted(range(len(p)), key=lambda at: p[at])
    assert sorted(adjusted) == [adjusted[at] for at in order]
    assert min(adjusted) == pytest.approx(min(1.0, min(p) * len(p)))
