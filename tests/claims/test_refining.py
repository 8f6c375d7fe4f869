"""Grids of a tuned setting are refined beside their best value, by the tuning data alone."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log

import pytest

from zotune.claims import Claim, Finals, Tuning, refinement
from zotune.claims.refining import between

CLAIM = Claim(name="it", says="It is so.", not_falling="q")
TUNING = Tuning(over="eta", replicates=2)
LIMIT = 1.93


def loss_at(eta: float) -> float:
    """Better up to a limit of stability."""
    return 1 / eta if eta < LIMIT else 1e9


def runs(etas: list[float], f: Callable[[float], float] = loss_at) -> list[Finals]:
    return [
        Finals({"q": q, "eta": eta}, [f(eta)] * 8, diverged=[f(eta) > 1e6] * 8)
        for q in (1, 9)
        for eta in etas
    ]


def refined(etas: list[float], f: Callable[[float], float] = loss_at) -> list[float]:
    """All values after as many rounds as there are."""
    values = list(etas)
    while more := refinement(runs(values, f), TUNING, [CLAIM]):
        values += sorted({point["eta"] for point in more})
    return sorted(values)


def test_a_best_step_next_to_a_diverging_one_is_refined_up_to_the_limit() -> None:
    values = refined([1.0, 1.5, 2.0])
    best = max(eta for eta in values if eta < LIMIT)
    assert LIMIT / 1.06 < best < LIMIT
    assert len(values) <= 8


def test_a_flat_optimum_gets_no_further_values() -> None:
    assert refined([1.0, 2.0, 4.0], lambda eta: 1 + 0.01 * log(eta / 2) ** 2) == [1.0, 2.0, 4.0]


def test_nothing_is_tried_beyond_the_ends_of_the_grid() -> None:
    assert max(refined([1.0, 2.0, 4.0], lambda eta: 1 / eta)) == 4.0


def test_every_configuration_is_refined_for_itself() -> None:
    ended = [
        Finals({"q": q, "eta": eta}, [abs(log(eta / best)) + 0.1] * 8)
        for q, best in ((1, 4.0), (9, 1.0))
        for eta in (1.0, 2.0, 4.0)
    ]
    assert refinement(ended, TUNING, [CLAIM]) == [{"q": 1, "eta": 2.83}, {"q": 9, "eta": 1.41}]


def test_replicates_that_judge_have_no_say() -> None:
    def ended(judging: float) -> list[Finals]:
        return [
            Finals({"q": q, "eta": eta}, [loss_at(eta)] * 2 + [judging * eta] * 6)
            for q in (1, 9)
            for eta in (1.0, 1.5, 2.0)
        ]

    assert refinement(ended(1.0), TUNING, [CLAIM]) == refinement(ended(-0.01), TUNING, [CLAIM])


def test_instances_that_judge_have_no_say_and_get_the_values_too() -> None:
    across = CLAIM.model_copy(update={"across": "problem.seed"})

    def ended(judging: float) -> list[Finals]:
        return [
            Finals(
                {"q": q, "eta": eta, "problem": {"seed": seed}},
                [loss_at(eta) if seed < 2 else judging * eta] * 3,
            )
            for seed in range(5)
            for q in (1, 9)
            for eta in (1.0, 1.5, 2.0)
        ]

    more = refinement(ended(1.0), TUNING, [across])
    assert more == refinement(ended(7.0), TUNING, [across])
    assert {point["problem.seed"] for point in more} == set(range(5))
    assert len(more) == 10 * len({point["eta"] for point in more})


def test_replicates_that_are_trials_each_get_the_value() -> None:
    ended = [
        Finals({"q": 1, "eta": eta, "replicate": r}, [loss_at(eta)])
        for eta in (1.0, 2.0)
        for r in range(4)
    ]
    assert [p["replicate"] for p in refinement(ended, TUNING, [CLAIM])] == [0, 1, 2, 3]


def test_refinement_can_be_turned_off() -> None:
    off = TUNING.model_copy(update={"refine": False})
    assert refinement(runs([1.0, 1.5, 2.0]), off, [CLAIM]) == []


def test_a_setting_that_diverges_everywhere_is_not_refined() -> None:
    assert between([1.0, 2.0, 4.0], [inf, inf, inf]) is None


@pytest.mark.parametrize("values", [[0.0, 1.0], [-1.0, 1.0]])
def test_values_that_are_not_positive_are_not_refined(values: list[float]) -> None:
    assert between(values, [1.0, 0.0]) is None
