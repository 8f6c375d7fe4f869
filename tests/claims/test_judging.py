"""Verdicts: claims that hold, that fail, and that nobody can decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zotune.claims import Claim, Finals, Tuning, Verdict, judge
from zotune.errors import ConfigError

BLOCKS = (1, 10, 100)


def claim(**said: Any) -> Claim:
    return Claim(**({"name": "it", "says": "It is so."} | said))


def runs(means: dict[str, list[float]], *, noise: float = 0.01, n: int = 10) -> list[Finals]:
    """Runs over q for each estimator, with noise that replicates share."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=n)
    return [
        Finals({"estimator": e, "q": q}, mean * np.exp(noise * (shared + rng.normal(size=n))))
        for e, row in means.items()
        for q, mean in zip(BLOCKS, row, strict=True)
    ]


DICHOTOMY = runs({"avg": [1.0, 1.1, 1.5], "align": [1.0, 0.9, 0.7]})


def word(said: Claim, ended: list[Finals]) -> str:
    return judge([said], ended)[0].verdict


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (claim(not_falling="q", where={"estimator": "avg"}), "holds"),
        (claim(not_falling="q", where={"estimator": "align"}), "fails"),
        (claim(not_rising="q", where={"estimator": "align"}), "holds"),
        (claim(not_rising="q", where={"estimator": "avg"}), "fails"),
        (claim(best={"q": 1}, where={"estimator": "avg"}), "holds"),
        (claim(best={"q": 10}, where={"estimator": "avg"}), "fails"),
        (claim(best={"q": "largest"}, where={"estimator": "align"}), "holds"),
        (claim(best={"q": 100, "estimator": "align"}), "holds"),
        (claim(over="q", within=0.6, where={"estimator": "avg"}), "holds"),
        (claim(over="q", within=0.2, where={"estimator": "avg"}), "fails"),
        (claim(over="q", within=0.5, where={"estimator": "avg"}), "undecided"),
        (claim(over="estimator", within=0.05, where={"q": 1}), "holds"),
        (claim(over="estimator", within=0.05, where={"q": "largest"}), "fails"),
        (
            claim(
                where={"estimator": "align"},
                compare={"lower": {"q": "largest"}, "higher": {"q": "smallest"}},
            ),
            "holds",
        ),
        (
            claim(
                compare={
                    "lower": {"estimator": "avg", "q": 100},
                    "higher": {"estimator": "align", "q": 100},
                }
            ),
            "fails",
        ),
        (claim(not_falling="q", within=0.2, where={"estimator": "align"}), "fails"),
        (claim(not_falling="q", within=0.5, where={"estimator": "align"}), "holds"),
    ],
)
def test_every_kind_of_claim_can_hold_and_fail(said: Claim, expected: str) -> None:
    assert word(said, DICHOTOMY) == expected


def test_a_rigged_study_fails_what_the_honest_one_shows() -> None:
    said = claim(not_falling="q", where={"estimator": "avg"})
    honest, rigged = runs({"avg": [1.0, 1.1, 1.5]}), runs({"avg": [1.0, 1.1, 0.9]})
    assert word(said, honest) == "holds"
    [verdict] = judge([said], rigged)
    assert verdict.verdict == "fails"
    assert "q=100 ends 18 % below q=10" in verdict.why
    assert verdict.estimate == pytest.approx(0.9 / 1.1 - 1, abs=0.02)
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.low < 0.9 / 1.1 - 1 < verdict.high < 0


def test_a_verdict_tells_the_pair_that_decides_with_its_interval() -> None:
    [verdict] = judge([claim(best={"q": 1}, where={"estimator": "avg"})], DICHOTOMY)
    assert (verdict.step, verdict.pairs, verdict.p) == ("theory", 10, 2 / 1024)
    assert verdict.why.startswith(
        "avg q=10 ends 10 % above avg q=1 in the geometric mean (95 % interval "
    )
    assert "the one of 2 comparisons that decides" in verdict.why


def test_too_few_replicates_are_told_without_an_interval_that_says_nothing() -> None:
    few = [Finals({"q": 1}, [1.0, 1.1, 0.9]), Finals({"q": 10}, [1.5, 1.4, 1.6])]
    [verdict] = judge([claim(best={"q": 1})], few)
    assert verdict.verdict == "undecided"
    assert verdict.why == (
        "q=10 ends 50 % above q=1 in the geometric mean; as claimed in 3 of 3 replicates, "
        "too few to decide anything."
    )


def test_losses_are_compared_above_their_minimum() -> None:
    ended = [
        Finals({"q": 1}, [-99.0] * 10, minimum=-100.0),
        Finals({"q": 2}, [-98.0] * 10, minimum=-100.0),
    ]
    [verdict] = judge([claim(not_falling="q")], ended)
    assert verdict.estimate == pytest.approx(1.0)
    assert verdict.unit == "ratio"


def test_losses_below_zero_without_a_minimum_are_compared_as_they_are() -> None:
    ended = [Finals({"q": 1}, [-1.0] * 10), Finals({"q": 2}, [2.0] * 10)]
    [verdict] = judge([claim(not_falling="q")], ended)
    assert (verdict.verdict, verdict.estimate, verdict.unit) == ("holds", 3.0, "difference")
    [share] = judge([claim(over="q", within=0.1)], ended)
    assert share.verdict == "undecided"
    assert "a share has no meaning" in share.why


def test_more_claims_make_every_one_harder_to_decide() -> None:
    close = runs({"avg": [1.0, 1.008, 1.6], "align": [1.0, 1.0, 1.0]})
    said = claim(compare={"lower": {"q": 1}, "higher": {"q": 10}}, where={"estimator": "avg"})
    alone = judge([said], close)[0]
    among = judge([said, *[claim(over="q", within=9, where={"estimator": "avg"})] * 9], close)[0]
    assert alone.p is not None
    assert among.p is not None
    assert among.p > alone.p


def test_two_replicates_decide_nothing_and_say_so() -> None:
    [verdict] = judge(
        [claim(not_falling="q", where={"estimator": "avg"})], runs({"avg": [1, 2, 3]}, n=2)
    )
    assert (verdict.verdict, verdict.low, verdict.high) == ("undecided", None, None)
    assert "as claimed in 2 of 2 replicates, too few to decide anything" in verdict.why


def test_equal_configurations_get_a_verdict_in_at_most_alpha_of_studies() -> None:
    said = [
        claim(name="a", not_falling="q", where={"estimator": "avg"}),
        claim(name="b", best={"q": 1}, where={"estimator": "align"}),
        claim(
            name="c",
            compare={"lower": {"estimator": "avg"}, "higher": {"estimator": "align"}},
            where={"q": 10},
        ),
    ]
    rng = np.random.default_rng(5)
    wrong, studies = 0, 400
    for _ in range(studies):
        ended = [
            Finals({"estimator": e, "q": q}, rng.lognormal(size=8))
            for e in ("avg", "align")
            for q in BLOCKS
        ]
        wrong += any(v.verdict != "undecided" for v in judge(said, ended))
    assert wrong / studies <= 0.05 + 3 * np.sqrt(0.05 / studies)


def test_verdicts_do_not_depend_on_the_order_of_runs_or_units() -> None:
    said = [
        claim(not_falling="q", where={"estimator": "avg"}),
        claim(best={"q": 100, "estimator": "align"}),
    ]
    scaled = [Finals(run.config, [1000 * x for x in run.losses]) for run in reversed(DICHOTOMY)]
    for one, other in zip(judge(said, DICHOTOMY), judge(said, scaled), strict=True):
        assert (one.verdict, one.p) == (other.verdict, other.p)
        assert one.estimate == pytest.approx(other.estimate)


def tuned(losses: dict[tuple[int, float], list[float]], **tuning: Any) -> list[Verdict]:
    ended = [Finals({"q": q, "eta": eta}, row) for (q, eta), row in losses.items()]
    said = [claim(compare={"lower": {"q": 9}, "higher": {"q": 1}})]
    return judge(said, ended, Tuning(**({"over": "eta", "replicates": 2, "theory": 1} | tuning)))


def test_tuning_can_turn_a_verdict_round() -> None:
    theory, best = tuned(
        {
            (1, 1.0): [5.0] * 10,
            (1, 4.0): [1.0] * 10,
            (1, 8.0): [2.0] * 10,
            (9, 1.0): [3.0] * 10,
            (9, 4.0): [2.0] * 10,
            (9, 8.0): [7.0] * 10,
        }
    )
    assert (theory.step, theory.verdict, theory.pairs) == ("theory", "holds", 8)
    assert (best.step, best.verdict, best.pairs) == ("tuned", "fails", 8)
    assert "q=9 at eta 4, where 1 ends higher and 8 ends higher: a better one may" in best.why


def test_the_rows_that_choose_do_not_judge() -> None:
    """A value that is lucky in the rows that choose is judged by the others."""
    lucky = [0.1, 0.1] + [6.0] * 8
    _, best = tuned(
        {(1, 1.0): [5.0] * 10, (1, 2.0): lucky, (9, 1.0): [5.5] * 10, (9, 2.0): [9.0] * 10}
    )
    assert best.verdict == "holds"
    assert best.estimate == pytest.approx(6 / 5.5 - 1)


def test_a_value_at_the_end_of_what_was_tried_is_told() -> None:
    _, best = tuned(
        {
            (1, 1.0): [5.0] * 10,
            (1, 2.0): [4.0] * 10,
            (9, 1.0): [3.0] * 10,
            (9, 2.0): [3.5] * 10,
        }
    )
    assert "q=1 at eta 2, the largest tried: a better one may lie beyond" in best.why
    assert "q=9 at eta 1, the smallest tried" in best.why


def test_the_theory_may_have_a_value_for_each_estimator_or_none() -> None:
    ended = [
        Finals({"estimator": e, "eta": eta}, [loss] * 10)
        for e, eta, loss in [("avg", 1, 2), ("avg", 2, 9), ("align", 1, 9), ("align", 2, 1)]
    ]
    said = [claim(best={"estimator": "align"})]
    own = Tuning(over="eta", replicates=2, theory={"avg": 1, "align": 2})
    assert [v.verdict for v in judge(said, ended, own)] == ["holds", "holds"]
    none = Tuning(over="eta", replicates=2)
    assert [v.step for v in judge(said, ended, none)] == ["tuned"]


def test_tuning_must_leave_rows_to_judge() -> None:
    with pytest.raises(ConfigError, match="2 replicates choose eta, and some must be left"):
        tuned({(1, 1.0): [5.0] * 2})


def test_replicates_that_were_trials_are_put_together() -> None:
    ended = [Finals({"q": q, "replicate": r}, [q + 0.01 * r]) for q in (1, 9) for r in range(10)]
    [verdict] = judge([claim(not_falling="q")], ended)
    assert (verdict.verdict, verdict.pairs) == ("holds", 10)
    with pytest.raises(ConfigError, match="run twice; judge one launch at a time"):
        judge([claim(not_falling="q")], [*ended, ended[0]])


def test_a_claim_about_runs_that_are_missing_is_undecided_with_the_reason() -> None:
    [verdict] = judge([claim(best={"q": 7}, where={"estimator": "avg"})], DICHOTOMY)
    assert verdict.verdict == "undecided"
    assert verdict.why == "cannot be judged: q 7 is not in the space; it has 1, 10, 100"
    assert verdict.p is None


def test_diverged_replicates_near_the_largest_number_are_judged() -> None:
    ended = [Finals({"q": 1}, [1.0] * 10), Finals({"q": 2}, [1e308] * 9 + [1.0])]
    [verdict] = judge([claim(not_falling="q")], ended)
    assert verdict.verdict == "holds"


def test_replicates_are_paired_by_their_numbers_and_not_by_their_places() -> None:
    ended = [
        Finals({"q": q, "replicate": r}, [q + 0.01 * r])
        for q, lost in ((1, 3), (9, 7))
        for r in range(10)
        if r != lost
    ]
    with pytest.raises(ConfigError, match="same replicates, and some lack one that others have"):
        judge([claim(not_falling="q")], ended)


def test_each_problem_is_compared_above_its_own_minimum() -> None:
    ended = [
        Finals({"problem": {"seed": seed}, "q": q}, [minimum + gap] * 10, minimum)
        for seed, minimum in ((0, 0.0), (1, 1000.0))
        for q, gap in ((1, 1.0), (9, 2.0))
    ]
    [verdict] = judge([claim(over="q", within=0.5, where={"problem.seed": 1})], ended)
    assert verdict.verdict == "fails"
    assert verdict.estimate == pytest.approx(-0.5)


@pytest.mark.parametrize(
    ("settings", "step"),
    [
        ({}, "theory"),
        ({"step": "theory", "eta": None}, "theory"),
        ({"step": "theory", "eta": 2.0}, "as run"),
        ({"step": "constant", "eta": 1.0}, "as run"),
    ],
)
def test_a_verdict_is_called_the_theory_s_only_at_its_step(
    settings: dict[str, Any], step: str
) -> None:
    ended = [Finals({"q": q} | settings, [float(q)] * 10) for q in (1, 9)]
    [verdict] = judge([claim(not_falling="q")], ended)
    assert verdict.step == step


def outlying(*odd: int, n: int = 15) -> list[Finals]:
    """q = 9 ends a tenth above q = 1, and five times as high in those replicates."""
    rng = np.random.default_rng(8)
    noise = np.exp(rng.normal(0, 0.01, n))
    far = np.where(np.isin(np.arange(n), odd), 5.0, 1.0)
    return [Finals({"q": 1}, np.ones(n)), Finals({"q": 9}, 1.1 * noise * far)]


def test_outlying_replicates_are_named_with_the_assumption_that_they_belie() -> None:
    [verdict] = judge([claim(not_falling="q")], outlying(4, 11))
    assert verdict.outliers == ("replicate 4", "replicate 11")
    assert (
        "outliers: replicate 4, replicate 11, so that p and interval, which assume" in verdict.why
    )
    assert "symmetric about their mean" in verdict.why
    [clean] = judge([claim(not_falling="q")], outlying())
    assert clean.outliers == ()
    assert "outlier" not in clean.why


def test_outliers_are_named_by_the_numbers_of_their_replicates_where_others_tune() -> None:
    ended = [Finals({**run.config, "eta": 1.0}, run.losses) for run in outlying(11)]
    tuning = Tuning(over="eta", replicates=5, theory=1)
    for verdict in judge([claim(not_falling="q")], ended, tuning):
        assert (verdict.pairs, verdict.outliers) == (10, ("replicate 11",))


def test_a_claim_about_medians_is_not_moved_by_an_outlier() -> None:
    said = claim(compare={"lower": {"q": 1}, "higher": {"q": 9}}, measure="median")
    for odd in ((), (4,), (4, 11)):
        [verdict] = judge([said], outlying(*odd))
        assert verdict.estimate == pytest.approx(0.1, abs=0.01)
        assert verdict.high is not None
        assert verdict.high < 0.13
        assert (verdict.verdict, verdict.measure) == ("holds", "median")
        assert "above q=1 in the median (95 % interval" in verdict.why
        assert "assume" not in verdict.why


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (claim(not_falling="q", where={"estimator": "avg"}), "holds"),
        (claim(not_falling="q", where={"estimator": "align"}), "fails"),
        (claim(best={"q": 10}, where={"estimator": "avg"}), "fails"),
        (claim(over="q", within=0.6, where={"estimator": "avg"}), "holds"),
        (claim(over="q", within=0.2, where={"estimator": "avg"}), "fails"),
        (claim(over="q", within=0.5, where={"estimator": "avg"}), "undecided"),
    ],
)
def test_claims_about_medians_can_hold_and_fail(said: Claim, expected: str) -> None:
    assert word(said.model_copy(update={"measure": "median"}), DICHOTOMY) == expected


def test_tuning_and_judging_take_one_measure() -> None:
    """Eta 2 has the lower mean of logarithms and eta 1 the lower mean; their medians agree."""
    uneven, even = [0.1, 0.1, 10.0], [2.0, 2.0, 2.0]
    ended = [
        Finals({"q": q, "eta": eta}, [*choosing, *[float(eta)] * 10])
        for q in (1, 9)
        for eta, choosing in ((1.0, even), (2.0, uneven))
    ]
    tuning = Tuning(over="eta", replicates=3)
    [mean] = judge([claim(over="q", within=1)], ended, tuning)
    assert "at eta 2" in mean.why
    shifted = [Finals(run.config, run.losses, minimum=-100.0) for run in ended]
    [above] = judge([claim(over="q", within=1)], shifted, tuning)
    assert "at eta 1" in above.why  # 110 beside 100.1 and 100.1 is more than 102 three times
    [median] = judge([claim(over="q", within=1, measure="median")], shifted, tuning)
    assert "at eta 2" in median.why


def on_instances(gap: float, *, instances: int = 8, spread: float = 1.0) -> list[Finals]:
    """q = 9 ends above q = 1 by a share that differs between instances more than between runs."""
    rng = np.random.default_rng(3)
    shares = np.exp(gap + spread * rng.normal(size=instances))
    return [
        Finals(
            {"q": q, "problem": {"name": "quadratic", "seed": seed}},
            shares[seed] ** (q == 9) * np.exp(0.01 * rng.normal(size=20)),
        )
        for seed in reversed(range(instances))
        for q in (1, 9)
    ]


def test_a_claim_across_instances_counts_each_of_them_once() -> None:
    said = claim(not_falling="q", across="problem.seed")
    [clear] = judge([said], on_instances(3.0))
    assert (clear.verdict, clear.pairs, clear.p) == ("holds", 8, 2 / 256)
    assert clear.across == "problem.seed"
    [doubtful] = judge([said], on_instances(0.2))
    assert doubtful.verdict == "undecided"
    assert "as claimed in 2 of 8 instances" in doubtful.why


def test_an_outlying_instance_is_named() -> None:
    ended = on_instances(1.0, spread=0.01)
    odd = [
        Finals(run.config, [9 * x for x in run.losses])
        if (run.config["q"], run.config["problem"]["seed"]) == (9, 5)
        else run
        for run in ended
    ]
    [verdict] = judge([claim(not_falling="q", across="problem.seed")], odd)
    assert verdict.outliers == ("problem.seed 5",)


def test_across_instances_some_choose_the_tuned_value_and_others_judge() -> None:
    ended = [
        Finals({"q": q, "eta": eta, "problem": {"seed": seed}}, [loss])
        for seed in range(8)
        for q in (1, 9)
        for eta, loss in ((1.0, q), (2.0, 0.5 * q if seed < 2 else 3.0 * q))
    ]
    tuning = Tuning(over="eta", replicates=2, theory=1)
    theory, tuned_ = judge([claim(not_falling="q", across="problem.seed")], ended, tuning)
    assert (theory.pairs, tuned_.pairs) == (6, 6)
    assert "at eta 2" in tuned_.why
    with pytest.raises(ConfigError, match="8 instances choose eta, and some must be left"):
        judge(
            [claim(not_falling="q", across="problem.seed")], ended, Tuning(over="eta", replicates=8)
        )


def test_a_missing_instance_is_told() -> None:
    with pytest.raises(ConfigError, match=r"same values of problem\.seed, and some lack one"):
        judge([claim(not_falling="q", across="problem.seed")], on_instances(1.0)[1:])


def test_no_claim_about_the_theory_s_step_is_judged_on_an_estimated_smoothness() -> None:
    ended = [
        Finals(
            {"estimator": e, "q": q, "eta": eta}, [q * eta] * 10, smoothness_estimated=e == "avg"
        )
        for e in ("avg", "align")
        for q in (1, 9)
        for eta in (1.0, 2.0)
    ]
    said = [claim(name=e, not_falling="q", where={"estimator": e}) for e in ("avg", "align")]
    tuning = Tuning(over="eta", replicates=2, theory=1)
    guessed, tuned_, known, _ = judge(said, ended, tuning)
    assert (guessed.step, guessed.verdict, guessed.p) == ("theory", "undecided", None)
    assert guessed.why.startswith("cannot be judged: L was estimated, so that the step is not")
    assert (tuned_.step, tuned_.verdict) == ("tuned", "holds")
    assert (known.step, known.verdict) == ("theory", "holds")
