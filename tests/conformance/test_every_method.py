"""What every registered method that yields points promises, and one of a user's beside them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import zotune
from tests.conformance.resuming import SIZE, check_killed
from tests.conformance.toys import register_toys
from tests.evaluators.shuffled import Shuffled
from zotune.config import Config, parse_config
from zotune.core.names import STATE_FILE
from zotune.errors import ConfigError
from zotune.evaluators import Evaluator
from zotune.loop import Loop
from zotune.methods import METHODS, Stage, Start
from zotune.runs.checkpoint import load_loop, save_loop

Array = npt.NDArray[np.float64]
REPLAYED = [name for name, method in METHODS.items() if method.replays]
OF_RESIDUALS = [name for name in REPLAYED if METHODS[name].outputs == "residuals"]
OWN = "compass"
EVERY = pytest.mark.parametrize("name", [*REPLAYED, OWN])
REJECTING = pytest.mark.parametrize(
    "name", [*(name for name in REPLAYED if METHODS[name].rejects_failures), OWN]
)
START = [-1.2, 1.0, 0.5]


@pytest.fixture(autouse=True)
def a_method_of_one_s_own() -> None:
    register_toys()


def rosenbrock(x: Array) -> Array:
    """Residuals of Rosenbrock's function."""
    return np.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x])


class Counted:
    """Rosenbrock's function, which keeps the points of its calls."""

    def __init__(self, *, fails: float = 0.0, wrong: float = np.inf) -> None:
        self.points: list[list[float]] = []
        self.fails, self.wrong, self.rng = fails, wrong, np.random.default_rng(0)

    def __call__(self, x: Array) -> Any:
        self.points.append(x.tolist())
        if len(self.points) > 1 and self.rng.random() < self.fails:
            return self.failed(x)
        return self.value(x)

    def value(self, x: Array) -> Any:
        return float((100 * (x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x) ** 2).sum())

    def failed(self, x: Array) -> Any:
        return self.wrong


class OfResiduals(Counted):
    """The same as a vector of residuals."""

    def value(self, x: Array) -> Any:
        return rosenbrock(x)

    def failed(self, x: Array) -> Any:
        found = rosenbrock(x)
        found[1] = self.wrong
        return found


def counted(name: str, **told: float) -> Counted:
    """The function in the form that a method is for."""
    return (OfResiduals if name in OF_RESIDUALS else Counted)(**told)


def minimize(f: Counted, *given: Any, **settings: Any) -> zotune.Run:
    return zotune.minimize(f, *given, residuals=isinstance(f, OfResiduals), **settings)


@EVERY
@pytest.mark.parametrize("budget", [1, 2, 13, 77, 200])
def test_a_function_is_never_called_more_often_than_the_budget_says(name: str, budget: int) -> None:
    f = counted(name)
    if METHODS[name].needs(3) > budget:
        with pytest.raises(ConfigError, match=r"needs a budget of \d+ evaluations, got \d+"):
            minimize(f, START, budget=budget, method=name)
        assert not f.points
        return
    run = minimize(f, START, budget=budget, method=name)
    assert len(f.points) == run.spent == run.nfev <= budget
    assert run.best_loss <= run.rows[0]["loss"]
    assert run.status in ("exhausted", "converged")
    ended = f"{name} ended after {run.spent} of {budget} evaluations" in run.message
    assert ended == (run.status == "converged")


@EVERY
def test_a_method_descends(name: str) -> None:
    run = minimize(counted(name), START, budget=400, method=name)
    assert run.best_loss < 0.1 * run.rows[0]["loss"]
    near = 1e-12 if name in OF_RESIDUALS else 0  # a sum of squares may be added in another order
    assert run.best_loss == pytest.approx(Counted()(run.best_x.numpy()), rel=near, abs=near)


@EVERY
def test_points_never_leave_the_bounds(name: str) -> None:
    f, low, high = counted(name), np.array([-1.3, 0.2, -0.5]), np.array([0.8, 1.1, 0.6])
    run = partial(minimize, f, START, budget=150, bounds=(low, high), method=name)
    if not METHODS[name].keeps_bounds:
        with pytest.raises(ConfigError, match="does not keep its points inside bounds"):
            run()
        return
    run()
    assert (low <= np.array(f.points)).all()
    assert (np.array(f.points) <= high).all()


@REJECTING
@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_a_failed_evaluation_is_a_rejected_point(name: str, wrong: float) -> None:
    f = counted(name, fails=0.1, wrong=wrong)
    run = minimize(f, START, budget=300, method=name)
    assert run.failed > 0
    assert np.isfinite(run.best_loss)
    assert run.best_loss < run.rows[0]["loss"]
    assert len(f.points) == run.spent <= 300


@EVERY
def test_a_run_is_a_function_of_its_seed_and_values(name: str) -> None:
    one, other = counted(name), counted(name)
    for f in (one, other):
        minimize(f, START, budget=120, method=name, seed=3)
    assert one.points == other.points


def loop_of(name: str, evaluator: Evaluator) -> Loop:
    """Two replicates of a method on a small quadratic."""
    objective: zotune.Objective = zotune.objectives.build_problem({"name": "quadratic", "dim": 4})
    if name in OF_RESIDUALS:
        objective = zotune.objective(rosenbrock, 4, residuals=True, array="numpy")
    told = {**SIZE, "budget": 90, "method": name, "replicates": 2}
    return Loop(parse_config(told), objective, evaluator=evaluator)


@EVERY
def test_killed_at_any_evaluation_and_resumed_it_is_the_same_run(name: str, tmp_path: Path) -> None:
    check_killed(partial(loop_of, name), tmp_path)


@EVERY
def test_asked_and_told_out_of_order_it_is_the_same_run(name: str, tmp_path: Path) -> None:
    f, draw = counted(name), np.random.default_rng(1)
    whole = minimize(f, START, budget=80, method=name)
    residuals = 5 if name in OF_RESIDUALS else 0
    m = zotune.Minimizer(START, budget=80, method=name, residuals=residuals)
    while not m.done:
        points = m.ask()
        some = draw.permutation(len(points))[: draw.integers(1, len(points) + 1)]
        m.tell([counted(name)(points[at]) for at in some], [points.ids[at] for at in some])
        m = zotune.Minimizer.load(m.save(tmp_path / "minimizer"))
    assert torch.equal(m.result.best_x, whole.best_x)
    assert (m.result.message, m.result.spent) == (whole.message, whole.spent)


def test_settings_of_blocks_mean_blocks_and_contradict_other_methods() -> None:
    assert parse_config({"budget": 9}).method == "auto"
    assert parse_config({"budget": 9, "q": 2}).method == "blocks"
    assert parse_config({"budget": 9, "eta": 0.1}).method == "blocks"
    assert parse_config({"budget": 9, "method": "blocks"}).method == "blocks"
    assert parse_config({"budget": 9, "method": "auto", "estimator": "auto"}).method == "auto"
    for method in ("auto", "lbfgsb"):
        with pytest.raises(ConfigError, match=f"^q is a setting of steps .* method '{method}'"):
            parse_config({"budget": 9, "method": method, "q": 2})
    with pytest.raises(
        ConfigError, match=r"method 'newtn' is not known \(did you mean 'newton'\?\)"
    ):
        parse_config({"budget": 9, "method": "newtn"})


@EVERY
def test_a_configuration_survives_its_own_record(name: str) -> None:
    config = parse_config({"budget": 9, "method": name})
    assert parse_config(config.model_dump()) == config
    assert Config.model_validate(json.loads(json.dumps(config.model_dump()))) == config


def test_methods_of_vectors_are_refused_on_mini_batches() -> None:
    batches = {"name": "stochastic-logistic", "dim": 4, "samples": 20, "batch": 4}
    with pytest.raises(ConfigError, match="method 'newton' is for functions of vectors"):
        zotune.minimize(batches, budget=40, method="newton")


def test_l_bfgs_b_asks_for_the_points_that_scipy_itself_asks_for() -> None:
    from scipy.optimize import minimize

    ours, its = Counted(), Counted()
    run = zotune.minimize(ours, START, budget=400, method="lbfgsb")
    found = minimize(its, START, method="L-BFGS-B", options={"maxfun": 10**9})
    assert run.best_loss == min(Counted()(np.array(p)) for p in its.points) <= found.fun
    assert {tuple(p) for p in ours.points} == {tuple(p) for p in its.points}
    assert len(ours.points) <= len(its.points)
    assert run.status == "converged"
    assert "CONVERGENCE" in run.message


def test_the_version_of_a_solver_is_recorded_and_another_one_does_not_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = loop_of("lbfgsb", Shuffled(0))
    path = save_loop(loop, loop.advance(loop.init(), 20), tmp_path / STATE_FILE)
    monkeypatch.setattr("zotune.methods._installed", lambda package: "0.9")
    with pytest.raises(ConfigError, match=r"version 1 scipy 1\..* with version 1 scipy 0.9"):
        load_loop(loop_of("lbfgsb", Shuffled(0)), path)


def test_mistakes_in_a_method_are_answered_in_one_line() -> None:
    def flat(start: Start) -> Stage[None]:
        yield start.x

    def outside(start: Start) -> Stage[None]:
        yield start.x[None] + 10

    def plain(start: Start) -> Any:
        return start.x

    zotune.methods.register("flat", formula="x")(flat)
    zotune.methods.register("outside", formula="x + 10")(outside)
    with pytest.raises(ConfigError, match=r"'flat' must yield points of shape \(n, 3\), .*\(3,\)"):
        zotune.minimize(Counted(), START, budget=9, method="flat")
    with pytest.raises(ConfigError, match="'outside' asked for a point outside the bounds"):
        zotune.minimize(Counted(), START, budget=9, bounds=(-2, 2), method="outside")
    with pytest.raises(ConfigError, match="method 'plain' must be a generator"):
        zotune.methods.register("plain", formula="x")(plain)


def test_a_last_request_larger_than_the_budget_is_cut_and_used() -> None:
    def guessing(start: Start) -> Stage[None]:
        rng = start.rng()
        while True:
            yield start.x + rng.standard_normal((50, start.dim))

    zotune.methods.register("guessing", formula="x + z")(guessing)
    f = Counted()
    run = zotune.minimize(f, START, budget=70, method="guessing")
    assert len(f.points) == run.spent == 70
    assert run.best_loss == min(Counted()(np.array(p)) for p in f.points)


def test_a_method_says_its_answer_where_the_lowest_value_is_not_it() -> None:
    def careful(start: Start) -> Stage[str]:
        yield start.x[None] / 2
        start.answer(start.x, start.value)
        start.choose("caution", "high", "the lowest value may be noise")
        return "enough"

    zotune.methods.register("careful", formula="x")(careful)
    run = zotune.minimize(Counted(), START, budget=70, method="careful")
    assert run.best_x.tolist() == START
    assert str(run.chosen["caution"]) == "high: the lowest value may be noise"
    assert run.message.startswith("careful ended after 2 of 70 evaluations: enough; no point")


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
@pytest.mark.parametrize("name", ["auto", "lbfgsb", OWN])
def test_any_number_of_workers_makes_the_same_run(name: str) -> None:
    def valley(x: Array) -> float:
        return float((100 * (x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x) ** 2).sum())

    runs = [
        zotune.minimize(valley, START, budget=60, method=name, workers=workers, array="numpy")
        for workers in (0, 1, 2)
    ]
    for run in runs[1:]:
        assert torch.equal(run.x, runs[0].x)
        assert run.curve.equals(runs[0].curve)
        assert run.message == runs[0].message
