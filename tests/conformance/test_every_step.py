"""Every registered step rule, and rules of users, on vectors and on weights."""

from __future__ import annotations

from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import pytest
import torch

import zotune
from tests.instrument import minimize, parse_config
from tests.weights.models import TinyQwen, bits
from tests.weights.toy import Toy
from zotune.core.names import STATE_FILE
from zotune.loop import Loop
from zotune.runs.checkpoint import load_loop, save_loop
from zotune.steps import STEPS, Line, Search, register
from zotune.updates import UPDATES
from zotune.weights.scalars import ScalarLog, rebuild

EVERY = pytest.mark.parametrize("name", sorted(STEPS))
SEARCHING = pytest.mark.parametrize("name", [n for n in sorted(STEPS) if STEPS[n].sees_values])
UPDATE = pytest.mark.parametrize("update", sorted(UPDATES))


def settings(name: str, **changes: Any) -> dict[str, Any]:
    base = {"step": name, "estimator": "align", "q": 3, "budget": 40, "count": "evaluations"}
    eta = {"constant": 1e-2, "sqrt-decay": 1e-2}.get(name)
    return base | {"eta": eta, "report_every": 13, "update": "sgd"} | changes


class Halving:
    """A rule of a user's that rejects steps and remembers the last that was good."""

    @staticmethod
    def rule(line: Line) -> Search:
        """Halve the step until f descends."""
        eta = 4.0 if isnan(line.memory["eta"]) else line.memory["eta"]
        for _ in range(4):
            if (yield eta) < line.value:
                line.memory["eta"] = 2 * eta
                return eta
            eta /= 2
        line.memory["eta"] = eta
        return None


def halving(line: Line) -> Search:
    """Halve the step until f descends."""
    return (yield from Halving.rule(line))


@pytest.fixture
def toy_step() -> str:
    if "halving" not in STEPS:
        register("halving", formula="eta / 2ᵏ", memory={"eta": nan}, most_trials=4)(halving)
    return "halving"


def check_vectors(tmp_path: Path, **changes: Any) -> None:
    """Resumed after every few evaluations, a run is bit for bit the unbroken one."""
    problem = {"name": "quadratic", "dim": 6}
    objective = zotune.objectives.build_problem(problem)
    config = parse_config(settings(**changes, replicates=2))
    whole = Loop(config, objective)
    unbroken = whole.advance(whole.init())
    state, loop = None, Loop(config, objective)
    for until in (5, 18, 31, None):
        state = loop.advance(loop.init() if state is None else state, until)
        save_loop(loop, state, tmp_path / STATE_FILE)
        loop = Loop(config, objective)
        state, _ = load_loop(loop, tmp_path / STATE_FILE)
    assert torch.equal(state.x, unbroken.x)
    assert state.ledger == unbroken.ledger
    assert loop.curve_rows(state) == whole.curve_rows(unbroken)
    assert unbroken.ledger.evaluations <= config.budget


def check_weights(tmp_path: Path, **changes: Any) -> None:
    """The same for the weights of a model, which the scalar log can rebuild too."""
    config = parse_config(settings(**changes))
    whole = Loop(config, TinyQwen(torch.float32))
    whole.advance(whole.init())
    loop = Loop(config, TinyQwen(torch.float32))
    save_loop(loop, loop.advance(loop.init(), 14), tmp_path / STATE_FILE)
    again = Loop(config, TinyQwen(torch.float32))
    state = again.advance(load_loop(again, tmp_path / STATE_FILE)[0])
    assert bits(again.objective) == bits(whole.objective)
    assert state.ledger.evaluations <= config.budget
    save_loop(again, state, tmp_path / STATE_FILE)
    rebuilt = TinyQwen(torch.float32)
    rebuild(rebuilt, ScalarLog.load(tmp_path))
    assert bits(rebuilt) == bits(whole.objective)


@SEARCHING
@UPDATE
def test_a_resumed_run_over_vectors_is_bit_for_bit_the_unbroken_one(
    name: str, update: str, tmp_path: Path
) -> None:
    check_vectors(tmp_path, name=name, update=update)


@SEARCHING
@pytest.mark.parametrize("update", ["sgd", "adam", "lbfgs"])
def test_a_resumed_run_over_weights_is_bit_for_bit_the_unbroken_one(
    name: str, update: str, tmp_path: Path
) -> None:
    check_weights(tmp_path, name=name, update=update)


def test_a_rule_of_a_user_that_rejects_is_one_of_the_house(toy_step: str, tmp_path: Path) -> None:
    check_vectors(tmp_path, name=toy_step)
    check_weights(tmp_path, name=toy_step, update="momentum")


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
