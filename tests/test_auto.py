"""``minimize`` with nothing said: everything is chosen."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import zotune
from zotune.errors import ConfigError


def banana(x: Tensor) -> float:
    a, b = x.tolist()
    return 100 * (b - a * a) ** 2 + (1 - a) ** 2


def test_a_stranger_s_function_is_minimised_with_nothing_said() -> None:
    run = zotune.minimize(banana, [-1.2, 1.0], budget=300)
    assert run.best_loss < 1e-8
    assert run.spent <= 300
    assert run.config.count == "evaluations"
    assert run.chosen
    assert run.message


@given(
    kind=st.sampled_from(["bowl", "valley", "absolute", "wavy", "walled", "flat", "linear"]),
    dim=st.integers(1, 12),
    budget=st.integers(1, 150),
    seed=st.integers(0, 9),
)
def test_a_run_never_ends_above_its_start_nor_over_its_budget(
    kind: str, dim: int, budget: int, seed: int
) -> None:
    start = np.random.default_rng(seed).normal(size=dim)
    calls = 0

    def f(x: npt.NDArray[np.float64]) -> float:
        nonlocal calls
        calls += 1
        size = np.arange(1, dim + 1)
        match kind:
            case "bowl":
                return float((size**2 * x**2).sum())
            case "valley":
                return float((x[:-1] ** 2 - x[1:]) @ (x[:-1] ** 2 - x[1:]) + (x[0] - 1) ** 2)
            case "absolute":
                return float(np.abs(x - 1).sum())
            case "wavy":
                return float((x**2).sum() - 3 * np.cos(9 * x).sum())
            case "walled":
                return math.nan if x[0] > start[0] + 0.01 else float((x**2).sum())
            case "flat":
                return 1.0
        return float(size @ x)

    run = zotune.minimize(f, start, budget=budget, seed=seed)
    assert calls == run.spent <= budget
    assert run.best_loss <= run.rows[0]["loss"]
    assert run.rows[-1]["loss"] <= run.rows[0]["loss"]
    assert run.status == "exhausted"


@given(dim=st.integers(1, 6), seed=st.integers(0, 20))
def test_points_and_probes_stay_inside_the_bounds(dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = rng.normal(size=dim)
    high = low + rng.uniform(0.01, 2, size=dim)
    goal = rng.normal(size=dim) * 3

    def f(x: npt.NDArray[np.float64]) -> float:
        assert (low <= x).all()
        assert (x <= high).all()
        return float(((x - goal) ** 2).sum())

    run = zotune.minimize(f, (low + high) / 2, budget=60 * (dim + 1), bounds=(low, high))
    assert run.best_loss == pytest.approx(float(((np.clip(goal, low, high) - goal) ** 2).sum()))


def test_bounds_of_an_objective_are_those_of_its_runs() -> None:
    box = zotune.objective(lambda x: ((x - 5) ** 2).sum(), 3, bounds=(0, 1))
    assert zotune.minimize(box, budget=200).best_x.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1.0, 0.0), "low below high"),
        ((0.0, math.nan), "must be numbers"),
        (([0.0, 0.0, 0.0], 1.0), "one number or 2"),
    ],
)
def test_bounds_that_cannot_be_are_refused(bounds: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        zotune.minimize(banana, [0.5, 0.5], budget=20, bounds=bounds)


def test_bounds_are_not_ignored_by_the_instrument() -> None:
    with pytest.raises(ConfigError, match="bounds need update='auto'"):
        zotune.minimize(banana, [0.5, 0.5], budget=20, bounds=(0, 1), q=2)


def test_evaluations_that_fail_are_rejected_points_and_counted() -> None:
    failed = 0

    def simulator(x: Tensor) -> float:
        nonlocal failed
        if float(x[0]) > 0.9:
            failed += 1
            raise OSError("did not converge")
        return float(((x - 1) ** 2).sum())

    run = zotune.minimize(simulator, [0.0, 0.0], budget=150, failures=(OSError,))
    assert run.failed == failed > 0
    assert run.best_loss < 0.05
    with pytest.raises(OSError, match="did not converge"):
        zotune.minimize(simulator, [0.0, 0.0], budget=150)


@given(dim=st.integers(1, 8), blocks=st.integers(1, 60), noise=st.sampled_from([1e-9, 1e-3, 1.0]))
def test_noise_is_worked_with_at_every_budget(dim: int, blocks: int, noise: float) -> None:
    rng = np.random.default_rng(0)

    def f(x: npt.NDArray[np.float64]) -> float:
        return float((x**2).sum() + noise * rng.standard_normal())

    run = zotune.minimize(f, [1.0] * dim, budget=blocks * (dim + 1))
    assert run.status == "exhausted"
    assert float((run.best_x**2).sum()) < dim + 6 * noise


def test_a_noisy_run_says_so() -> None:
    rng = np.random.default_rng(0)

    def f(x: npt.NDArray[np.float64]) -> float:
        return float((x**2).sum() + 0.01 * rng.standard_normal())

    run = zotune.minimize(f, [3.0] * 5, budget=600)
    assert "values at one point differ" in run.chosen["why"]
    assert float((run.best_x**2).sum()) < 0.1


def test_a_resumed_run_is_bit_for_bit_the_unbroken_one(tmp_path: Path) -> None:
    calls = 0

    def f(x: Tensor) -> float:
        nonlocal calls
        calls += 1
        if calls == 47:
            raise KeyboardInterrupt
        return banana(x)

    path = tmp_path / "run"
    settings: dict[str, Any] = {"budget": 200, "checkpoint": path, "report_every": 50}
    with pytest.raises(KeyboardInterrupt):
        zotune.minimize(f, [-1.2, 1.0], **settings)
    before = zotune.load_run(path).spent
    resumed = zotune.minimize(f, [-1.2, 1.0], **settings)
    assert 0 < before < 47
    assert calls == 47 + 200 - before
    whole = zotune.minimize(banana, [-1.2, 1.0], budget=200)
    assert torch.equal(resumed.x, whole.x)
    assert resumed.rows == whole.rows
    assert zotune.load_run(path).chosen == whole.chosen


def test_a_replicate_is_the_run_it_would_be_alone() -> None:
    problem = {"name": "quadratic", "dim": 8}
    starts = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    together = zotune.minimize(problem, starts, budget=150, replicates=3)
    for at in range(3):
        alone = zotune.minimize(problem, starts[at], budget=150, replicate=at)
        assert torch.equal(together.x[at], alone.x[0])
        assert together.state.lanes[at].ledger == alone.state.ledger


def test_a_target_or_a_time_ends_a_run_and_says_so() -> None:
    run = zotune.minimize(banana, [-1.2, 1.0], budget=2000, target=1e-3, report_every=10)
    assert run.status == "stopped"
    assert run.best_loss <= 1e-3
    assert run.spent < 2000
    assert "target 0.001 was reached" in run.message
    late = zotune.minimize(banana, [-1.2, 1.0], budget=2000, seconds=0.0, report_every=10)
    assert (late.status, late.spent < 100) == ("stopped", True)


def of_arrays(x):  # type: ignore[no-untyped-def]
    return np.sum(x.copy() ** 2)


def annotated(x: npt.NDArray[np.float64]) -> float:
    assert isinstance(x, np.ndarray)
    return float((x**2).sum())


@pytest.mark.parametrize("function", [of_arrays, annotated])
def test_a_function_written_for_numpy_gets_numpy(function: Any) -> None:
    assert zotune.minimize(function, [1.0, 2.0], budget=60).best_loss < 1e-8


def test_arrays_can_be_asked_for_by_name() -> None:
    seen = set()

    def f(x: Any) -> float:
        seen.add(type(x))
        return float((x**2).sum())

    zotune.minimize(zotune.objective(f, 2, array="numpy", start=[1.0, 1.0]), budget=20)
    assert seen == {np.ndarray}


def test_an_update_is_not_chosen_for_a_step_that_was_told() -> None:
    with pytest.raises(ConfigError, match="update 'auto' chooses the step as well"):
        zotune.minimize(banana, [0.0, 0.0], budget=20, update="auto", step="theory")


def test_what_is_told_is_kept_and_the_rest_is_chosen_and_said() -> None:
    settings = {"budget": 600, "update": "auto", "step": "auto", "count": "evaluations"}
    full = zotune.minimize(banana, [0.0, 0.0], **settings, estimator="align", q="auto")
    assert full.chosen["q"].startswith("2: the budget covers 200 full blocks")
    assert full.chosen["update"].startswith("lbfgs: ")
    assert full.best_loss < 1e-4
    few = zotune.minimize(banana, [0.0, 0.0], **settings, estimator="avg", q="auto")
    assert few.chosen["update"].startswith("sgd: ")
    assert few.rows[-1]["loss"] < few.rows[0]["loss"]


def test_a_trial_says_in_every_row_what_was_chosen() -> None:
    trial = zotune.ZOTrainable({"problem": {"name": "stochastic-logistic", "dim": 9}, "budget": 90})
    rows = [trial.step() for _ in range(3)]
    assert [row["chosen_update"] for row in rows] == ["sgd"] * 3
    assert rows[0].keys() == rows[-1].keys()
    assert "chosen_method" in zotune.ZOTrainable({"problem": "rosenbrock", "budget": 90}).step()


def test_a_run_in_a_pipe_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    zotune.minimize(banana, [0.0, 0.0], budget=40)
    assert capfd.readouterr() == ("", "")


def test_a_trial_that_chooses_sends_its_curve_once_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    settings = {"problem": {"name": "rosenbrock", "dim": 6}, "update": "auto", "step": "auto"}
    settings |= {"count": "evaluations", "budget": 400, "replicates": 2, "curve": True}
    trial = zotune.ZOTrainable(dict(settings))
    rows = [trial.step() for _ in range(5)]
    trial.save_checkpoint(str(tmp_path))
    resumed = zotune.ZOTrainable(dict(settings))
    resumed.load_checkpoint(str(tmp_path))
    others = list(rows)
    for one, its in ((trial, rows), (resumed, others)):
        while not its[-1]["done"]:
            its.append(one.step())
    assert others == rows
    points = [point["spent"] for row in rows for point in row["_zotune_curve"]]
    assert points == sorted(set(points))
    assert (points[0], points[-1]) == (0, 400)
