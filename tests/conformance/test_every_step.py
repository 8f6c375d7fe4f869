"""Every registered step rule, on vectors and on weights."""

from __future__ import annotations

from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import torch

import zotune
from tests.conformance.resuming import check_vectors, check_weights
from tests.conformance.toys import register_toys
from tests.instrument import minimize, parse_config
from tests.weights.toy import Toy
from zotune.loop import Loop
from zotune.steps import STEPS
from zotune.updates import UPDATES

EVERY = pytest.mark.parametrize("name", sorted(STEPS))
SEARCHING = pytest.mark.parametrize("name", [n for n in sorted(STEPS) if STEPS[n].sees_values])
UPDATE = pytest.mark.parametrize("update", sorted(UPDATES))


def settings(name: str, **changes: Any) -> dict[str, Any]:
    base = {"step": name, "estimator": "align", "q": 3, "budget": 40, "count": "evaluations"}
    eta = {"constant": 1e-2, "sqrt-decay": 1e-2}.get(name)
    return base | {"eta": eta, "report_every": 13, "update": "sgd"} | changes


@pytest.fixture
def toy_step() -> str:
    register_toys()
    return "halving"


@SEARCHING
@UPDATE
def test_a_resumed_run_over_vectors_is_bit_for_bit_the_unbroken_one(
    name: str, update: str, tmp_path: Path
) -> None:
    check_vectors(tmp_path, **settings(name, update=update))


@SEARCHING
@pytest.mark.parametrize("update", ["sgd", "adam", "lbfgs"])
def test_a_resumed_run_over_weights_is_bit_for_bit_the_unbroken_one(
    name: str, update: str, tmp_path: Path
) -> None:
    check_weights(tmp_path, **settings(name, update=update))


@pytest.mark.parametrize("difference", ["forward", "central"])
@pytest.mark.parametrize("count", ["directions", "evaluations"])
def test_every_call_is_charged_and_the_budget_is_kept(
    toy_step: str, difference: str, count: str
) -> None:
    calls = []

    def bowl(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return (x**2).sum()

    objective = zotune.objective(bowl, 5, start=[1.0] * 5)
    for name in (toy_step, "auto"):
        calls.clear()
        run = minimize(objective, **settings(name, difference=difference, count=count, budget=57))
        ledger = run.state.ledger
        assert len(calls) == ledger.evaluations + ledger.monitored
        spent = ledger.evaluations if count == "evaluations" else ledger.queries
        assert 50 < spent <= 57


def test_the_value_at_an_accepted_point_is_not_paid_again() -> None:
    """q evaluations and one trial a step, after the first value."""
    run = minimize({"name": "quadratic", "dim": 6}, **settings("auto", budget=101, q=4, eta=None))
    trials = run.state.ledger.evaluations - 1 - 4 * run.state.steps
    assert run.state.steps <= trials <= 2 * run.state.steps


@UPDATE
def test_auto_never_ends_above_its_start(update: str) -> None:
    for seed in range(5):
        run = minimize(
            lambda x: (x**4).sum() + 100 * (x[0] - x[1] ** 2) ** 2,
            [3.0, -2.0, 1.0, 0.5],
            **settings("auto", update=update, budget=200, seed=seed, q=2),
        )
        losses = [row["loss"] for row in run.rows]
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < losses[0]


@pytest.mark.parametrize("bad", [inf, nan])
def test_values_that_are_not_finite_are_rejected_points(bad: float) -> None:
    def walled(x: torch.Tensor) -> float:
        return float((x**2).sum()) if float(x[0]) > 0.5 else bad

    run = minimize(walled, [2.0, 2.0, 2.0], **settings("auto", q=3, budget=300))
    assert run.status == "exhausted"
    assert run.rows[-1]["loss"] < 0.76  # where the line to the minimum meets the wall


def test_auto_finds_its_step_over_twelve_orders_of_magnitude() -> None:
    for scale in (1e-6, 1.0, 1e6):
        run = minimize(
            lambda x, s=scale: s * ((x - 1) ** 2).sum(),
            [0.0] * 5,
            **settings("auto", q=5, budget=100, estimator="align"),
        )
        assert run.rows[-1]["loss"] < 1e-6 * run.rows[0]["loss"]


def test_normalized_is_free_of_the_scale_of_f() -> None:
    def end(scale: float) -> torch.Tensor:
        return minimize(
            lambda x: scale * ((x - 1) ** 2).sum(),
            [0.0] * 5,
            **settings("normalized", q=4, eta=1e-2, budget=200, difference="central"),
        ).x

    assert torch.allclose(end(1.0), end(1e6), rtol=1e-4, atol=1e-6)


def test_normalized_goes_by_a_running_mean_where_a_block_has_one_direction() -> None:
    run = minimize(
        lambda x: ((x - 1) ** 2).sum(),
        [0.0] * 5,
        **settings("normalized", q=1, eta=0.02, budget=2000, estimator="avg"),
    )
    assert run.rows[-1]["loss"] < 0.05 * run.rows[0]["loss"]


@SEARCHING
def test_a_model_learns_by_it_and_its_trials_are_on_the_same_batch(name: str) -> None:
    eta = {"normalized": 1e-2}.get(name)
    settings_ = settings(name, q=8, budget=1500, estimator="avg", eta=eta)
    loop = Loop(parse_config(settings_), Toy())
    state = loop.init()
    start = float(state.loss)
    state = loop.report(loop.advance(state))[0]
    assert float(state.loss) < 0.5 * start


@EVERY
def test_a_rule_tells_its_formula(name: str) -> None:
    entry = STEPS[name]
    assert entry.formula
    assert entry.summary
    assert (entry.size is None) != (entry.search is None)
