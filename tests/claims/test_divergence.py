"""Runs that diverged are counted and compared as the worst outcome; their numbers mean nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zotune.claims import Claim, Finals, Tuning, Verdict, judge
from zotune.claims.signtest import p_above

PAIRS = 10


def claim(**kind: Any) -> Claim:
    return Claim(name="it", says="It is so.", **kind)


def judged(one: list[float], ten: list[float], lost: int, **more: Any) -> Verdict:
    """The verdict on "q = 1 ends lower", with that many diverged runs of q = 10."""
    ended = [
        Finals({"q": 1}, one, **more),
        Finals({"q": 10}, ten, diverged=[at < lost for at in range(len(ten))], **more),
    ]
    [verdict] = judge([claim(compare={"lower": {"q": 1}, "higher": {"q": 10}})], ended)
    return verdict


def test_the_last_number_of_a_diverged_run_does_not_change_the_verdict() -> None:
    small = judged([1.0] * PAIRS, [9.0] * 3 + [1.1] * 7, lost=3)
    huge = judged([1.0] * PAIRS, [1e80] * 3 + [1.1] * 7, lost=3)
    assert small == huge
    assert huge.estimate == pytest.approx(0.1)
    assert huge.measure == "median"


def test_divergence_counts_as_the_worst_outcome_in_the_sign_test() -> None:
    verdict = judged([1.0] * PAIRS, [1e80] * 3 + [1.1] * 7, lost=3)
    assert (verdict.verdict, verdict.diverged) == ("holds", (0, 3))
    assert verdict.p == pytest.approx(2 / 2**PAIRS)
    assert "diverged: q=10 in 3 of 10 replicates, q=1 in 0 (the worst outcome" in verdict.why


def test_an_interval_that_reaches_divergence_has_no_upper_end() -> None:
    verdict = judged([1.0] * PAIRS, [1e80] * 3 + [1.1] * 7, lost=3)
    assert verdict.low is not None
    assert verdict.high is None
    assert "(95 % interval 10 % to q=10 diverging)" in verdict.why


def test_divergence_of_most_runs_has_no_size() -> None:
    verdict = judged([1.0] * PAIRS, [1e80] * 9 + [1.1], lost=9)
    assert (verdict.verdict, verdict.estimate, verdict.high) == ("holds", None, None)
    assert verdict.why.startswith("q=10 diverges in the median; diverged: q=10 in 9 of 10")


def test_pairs_that_diverge_on_both_sides_are_evidence_for_nothing() -> None:
    lost = [True] * PAIRS
    ended = [Finals({"q": q}, [1e30] * PAIRS, diverged=lost) for q in (1, 10)]
    for kind in ({"over": "q", "within": 0.1}, {"not_falling": "q"}, {"best": {"q": 1}}):
        [verdict] = judge([claim(**kind)], ended)
        assert (verdict.verdict, verdict.p) == ("undecided", 1.0)


def test_a_run_that_ends_far_above_its_start_has_diverged_even_if_it_is_finite() -> None:
    above = judged([1.0] * PAIRS, [1e9] * 2 + [1.1] * 8, lost=0, start=5.0, minimum=0.0)
    assert above.diverged == (0, 2)
    below = judged([1.0] * PAIRS, [49.0] * 2 + [1.1] * 8, lost=0, start=5.0, minimum=0.0)
    assert below.diverged == (0, 0)


def test_an_instance_with_a_diverged_replicate_has_diverged_for_a_claim_about_means() -> None:
    def ended(q: int, seed: int, lost: list[bool]) -> Finals:
        return Finals({"q": q, "problem.seed": seed}, [float(q)] * 2, diverged=lost)

    runs = [
        ended(q, seed, [False, q == 10 and seed == 0]) for q in (1, 10) for seed in range(PAIRS)
    ]
    [verdict] = judge([claim(not_falling="q", across="problem.seed")], runs)
    assert (verdict.verdict, verdict.diverged) == ("holds", (0, 1))


def test_a_step_at_which_a_tuning_run_diverges_is_not_chosen() -> None:
    runs = [
        Finals({"q": 1, "eta": 1.0}, [2.0] * PAIRS),
        Finals({"q": 1, "eta": 2.0}, [0.1] * PAIRS, diverged=[True] + [False] * 9),
        Finals({"q": 9, "eta": 1.0}, [3.0] * PAIRS),
        Finals({"q": 9, "eta": 2.0}, [2.9] * PAIRS),
    ]
    tuning = Tuning(over="eta", replicates=2)
    [verdict] = judge([claim(not_falling="q")], runs, tuning)
    assert "q=1 at eta 1" in verdict.why
    assert "2 diverges" in verdict.why


def test_the_sign_test_takes_infinite_differences() -> None:
    assert p_above(np.array([np.inf, 1.0, 2.0])) == 1 / 8
    assert p_above(np.array([-np.inf, 1.0, 2.0])) == 4 / 8


def test_verdicts_with_divergence_are_wrong_in_at_most_alpha_of_studies() -> None:
    rng = np.random.default_rng(7)
    wrong, studies = 0, 400
    said = [claim(not_falling="q"), claim(best={"q": 1})]
    for _ in range(studies):
        runs = [
            Finals({"q": q}, rng.lognormal(size=8), diverged=list(rng.random(8) < 0.3))
            for q in (1, 10, 100)
        ]
        wrong += any(verdict.verdict != "undecided" for verdict in judge(said, runs))
    assert wrong / studies <= 0.05 + 3 * np.sqrt(0.05 / studies)


def test_arithmetic_means_that_say_the_opposite_are_told() -> None:
    """Geometric means are judged and arithmetic ones are drawn; a reader must hear of both."""
    verdict = judged([1.0] * 9 + [500.0], [2.0] * 10, lost=0)
    assert verdict.means == (pytest.approx(50.9), pytest.approx(2.0))
    assert "arithmetic means, which figures show, are the other way round" in verdict.why
    assert "in the geometric mean" in verdict.why
