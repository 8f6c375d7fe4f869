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
from tests.solo import untimed
from tests.weights.toy import Toy
from zotune.choosing import resolve
from zotune.config import parse_config
from zotune.core.state import State, Told
from zotune.errors import ConfigError, ObjectiveError, ZotuneError
from zotune.loop import Loop
from zotune.methods import METHODS, Start
from zotune.methods.dialogue import Dialogue
from zotune.methods.parts.local import Memory
from zotune.methods.parts.units import Units
from zotune.runs.checkpoint import load_loop, save_loop


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


PHYSICAL = {
    "low": np.array([1e-6, 100.0, 0.1, 1e4, 0.0, 280.0, 1e-3, 5.0]),
    "high": np.array([1e-4, 2000.0, 0.9, 1e6, 1.0, 350.0, 1e-1, 50.0]),
}
"""Bounds of a thickness in metres, a pressure in pascals, a temperature, …"""


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_parameters_in_physical_units_are_found_within_their_bounds(noise: float) -> None:
    low, high = PHYSICAL["low"], PHYSICAL["high"]
    rng = np.random.default_rng(0)
    goal = low + (high - low) * rng.uniform(0.1, 0.9, 8)

    def simulator(p: npt.NDArray[np.float64]) -> float:
        assert (p >= low).all()
        assert (p <= high).all()
        off = (p - goal) / (high - low)
        return float((np.arange(1, 9) * off**2).sum() + noise * rng.standard_normal())

    run = zotune.minimize(simulator, (low + high) / 2, budget=400, bounds=(low, high))
    off = np.abs(run.best_x.numpy() - goal) / (high - low)
    assert off.max() < (0.05 if noise else 1e-6)


def test_a_start_in_units_of_its_own_is_evaluated_as_it_was_given() -> None:
    low, high = PHYSICAL["low"], PHYSICAL["high"]
    start = low + (high - low) * np.random.default_rng(1).uniform(0, 1, 8)
    for x0, expected in ((start, start), (high * 2, high)):
        m = zotune.Minimizer(x0, budget=100, bounds=(low, high))
        assert (np.asarray(m.ask())[0] == expected).all()


def test_coordinates_have_units_of_their_own_only_where_bounds_leave_unlike_room() -> None:
    x, narrow, wide = np.zeros(2), np.full(2, 1e-3), np.full(2, 1e3)
    assert Units.of(x, None) is None
    assert Units.of(x, (-wide, wide)) is None
    assert Units.of(x, (-narrow, narrow)) is None  # equally little
    assert Units.of(x, (-wide, np.array([np.inf, 5.0]))) is None
    units = Units.of(x, (-np.array([1e-3, 1e9]), np.array([1e-3, np.inf])))
    assert units is not None
    assert units.size.tolist() == [2e-3, 1.0]  # loose bounds tell nothing


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


@given(
    dim=st.integers(1, 6),
    seed=st.integers(0, 20),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    settings=st.fixed_dictionaries(
        {"estimator": st.sampled_from(["avg", "align", "align-diag", "align-memory"])},
        optional={
            "q": st.integers(1, 6),
            "update": st.sampled_from(["sgd", "momentum", "nesterov", "adam", "sign", "lbfgs"]),
            "step": st.sampled_from(["auto", "normalized", "constant", "theory"]),
            "directions": st.sampled_from(["sphere", "rademacher", "orthogonal", "coordinate"]),
            "difference": st.just("central"),
            "mu": st.sampled_from([1e-3, 0.3]),
            "replicates": st.just(2),
            "diagnostics": st.just(True),
        },
    ),
)
def test_a_chosen_estimator_keeps_points_and_probes_inside_the_bounds(
    dim: int, seed: int, dtype: torch.dtype, settings: dict[str, Any]
) -> None:
    rng = np.random.default_rng(seed)
    low = np.where(rng.random(dim) < 0.2, -np.inf, rng.normal(size=dim))
    high = np.where(np.isinf(low), 1.0, low) + rng.uniform(0.01, 2, size=dim)
    goal = torch.from_numpy(rng.normal(size=dim) * 3)

    def f(x: Tensor) -> Tensor:
        assert (low <= x.double().numpy()).all()
        assert (x.double().numpy() <= high).all()
        return ((x.double() - goal) ** 2).sum()

    settings = {**settings, "q": min(settings.get("q", 1), dim)}
    bent = settings.get("update") in ("adam", "sign", "lbfgs")
    if settings.get("step") == "theory" and (bent or settings["estimator"] == "align-memory"):
        settings["step"] = "auto"
    settings |= {"eta": 0.1} if settings.get("step") == "constant" else {}
    start = rng.normal(size=dim)  # maybe outside
    box = zotune.objective(f, dim, start=start, bounds=(low, high), L=2.0, dtype=dtype)
    run = zotune.minimize(box, budget=60, **settings)
    assert 0 < run.spent <= 60
    for x in (*run.x, run.best_x):
        f(x)
    assert run.best_loss == pytest.approx(float(f(run.best_x)), rel=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"estimator": "align"},
        {"estimator": "align", "difference": "central"},
        {"estimator": "align", "q": 2},
        {"estimator": "avg"},
        {"update": "nesterov"},
        {"step": "theory"},
        {"eta": 0.05},
    ],
)
def test_bounded_steps_find_the_lowest_point_inside(settings: dict[str, Any]) -> None:
    """Whose first two coordinates are at bounds, and whose others are not."""
    low, high = np.zeros(5), np.array([1.0, 1.0, 5.0, 5.0, 5.0])
    goal = torch.tensor([3.0, -2.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    weight = torch.tensor([1.0, 2.0, 3.0, 1.0, 2.0], dtype=torch.float64)
    run = zotune.minimize(
        lambda x: (weight * (x - goal) ** 2).sum(), [0.5] * 5, budget=900, bounds=(low, high),
        **settings,
    )  # fmt: skip
    assert run.best_x.tolist() == pytest.approx([1.0, 0.0, 1.0, 2.0, 3.0], abs=0.02)


def test_bounds_that_a_run_cannot_keep_are_refused() -> None:
    with pytest.raises(ConfigError, match="bounds need blocks of directions that fit in memory"):
        zotune.minimize(banana, [0.5, 0.5], budget=20, bounds=(0, 1), q=2, block_bytes=20)
    with pytest.raises(ConfigError, match="bounds are for vectors, and these are weights"):
        zotune.minimize(Toy(), budget=20, bounds=(0, 1))


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


WEIGHTS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("breaks", ["now and then", "outside of a region"])
def test_a_noisy_function_that_fails_is_descended_all_the_same(seed: int, breaks: str) -> None:
    rng = np.random.default_rng(100 + seed)

    def simulator(x: np.ndarray) -> float:
        outside = x[0] < -1.05 or x[2] > 1.02
        if outside if breaks == "outside of a region" else rng.random() < 0.1:
            raise OSError("did not converge")
        return float((WEIGHTS * x**2).sum() + 0.01 * rng.standard_normal())

    told = {"budget": 300, "bounds": (-2, 2), "failures": OSError, "seed": seed}
    run = zotune.minimize(simulator, [-1.0, -1.0, 1.0, 0.0, 1.0], **told)
    assert run.failed > 0
    assert float((WEIGHTS * run.best_x.numpy() ** 2).sum()) < 0.1  # of 23 at the start


def test_a_start_that_fails_is_tried_again_and_what_it_raised_is_told() -> None:
    calls = []

    def simulator(x: Tensor, always: bool = False) -> float:
        calls.append(1)
        if always or len(calls) < 3:
            raise OSError("the mesh broke")
        return float((x**2).sum())

    run = zotune.minimize(simulator, [1.0, 1.0], budget=60, failures=OSError)
    assert (run.failed, run.nfev) == (2, len(calls))
    assert run.best_loss < 1e-6
    wanted = "finite at the start point, it raised OSError: the mesh broke; choose another x0"
    with pytest.raises(ObjectiveError, match=wanted):
        zotune.minimize(lambda x: simulator(x, True), [1.0, 1.0], budget=60, failures=OSError)
    with pytest.raises(ObjectiveError, match=r"at the start point, got \[nan\]"):
        zotune.minimize(lambda x: float("nan"), [1.0, 1.0], budget=60)


@given(dim=st.integers(1, 8), blocks=st.integers(1, 60), noise=st.sampled_from([1e-9, 1e-3, 1.0]))
def test_noise_is_worked_with_at_every_budget(dim: int, blocks: int, noise: float) -> None:
    rng = np.random.default_rng(0)

    def f(x: npt.NDArray[np.float64]) -> float:
        return float((x**2).sum() + noise * rng.standard_normal())

    run = zotune.minimize(f, [1.0] * dim, budget=blocks * (dim + 1))
    assert run.status == "exhausted"
    assert float((run.best_x**2).sum()) < dim + 6 * noise


def noisy_bowl(deviation: float, dim: int) -> tuple[Any, Any]:
    """A bowl with noise around (2, …, 2), and without."""
    rng = np.random.default_rng(0)

    def bowl(x: npt.NDArray[np.float64]) -> float:
        return float(((np.asarray(x) - 2) ** 2).sum())

    def f(x: npt.NDArray[np.float64]) -> float:
        return bowl(x) + deviation * rng.standard_normal()

    return f, bowl


def test_a_noisy_run_says_how_noisy_and_what_that_means() -> None:
    f, bowl = noisy_bowl(0.01, 5)
    run = zotune.minimize(f, [5.0] * 5, budget=600)
    assert run.chosen["method"].value == "filtering"
    assert "values at one point differ by 0.0" in run.chosen["method"].reason
    assert "the function is noisy: values at one point differ by 0.0" in run.message
    assert "smaller differences of the loss mean nothing" in run.message
    assert bowl(run.best_x.numpy()) < 0.01
    assert abs(run.best_loss - bowl(run.best_x.numpy())) < 0.02


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.001, 0.01])
@pytest.mark.parametrize("blocks", [15, 23, 29])
def test_noise_is_noticed_where_the_budget_covers_few_blocks(
    blocks: int, share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weights = np.arange(1, 13)

    def above(x: npt.NDArray[np.float64]) -> float:
        return float((weights * (x - np.linspace(0.2, 2.2, 12)) ** 2).sum())

    def simulator(x: npt.NDArray[np.float64]) -> float:
        return (10 + above(x)) * (1 + share * rng.standard_normal())

    run = zotune.minimize(simulator, [1.5] * 12, budget=blocks * 13, bounds=(0, 3), seed=seed)
    assert "the function is noisy: values at one point differ by" in run.message
    assert above(run.best_x.numpy()) < 0.1 * above(np.full(12, 1.5))


@pytest.mark.parametrize("share", [1e-4, 1e-2])
@pytest.mark.parametrize(("dim", "budget"), [(2, 25), (2, 40), (3, 33), (3, 60), (6, 60), (12, 70)])
def test_under_noise_a_few_dozen_evaluations_suffice_to_descend(
    dim: int, budget: int, share: float
) -> None:
    def left(seed: int) -> float:
        rng = np.random.default_rng(seed)
        center = rng.uniform(-0.3, 0.3, dim)

        def above(x: npt.NDArray[np.float64]) -> float:
            return float((np.linspace(1, 5, dim) * (x - center) ** 2).sum())

        start = above(np.zeros(dim))

        def f(x: npt.NDArray[np.float64]) -> float:
            return above(x) + share * start * rng.standard_normal()

        return above(ask_all(f, np.zeros(dim), budget).x) / start

    shares = np.array([left(seed) for seed in range(12)])
    assert np.median(shares) < 20 * share
    assert np.mean(shares < 0.5) >= 0.9


@pytest.mark.parametrize("dim", [12, 300])
def test_noise_is_told_where_the_budget_covers_hardly_a_block(dim: int) -> None:
    rng = np.random.default_rng(0)

    def f(x: npt.NDArray[np.float64]) -> float:
        return float((x**2).sum() * (1 + 0.01 * rng.standard_normal()))

    run = zotune.minimize(f, [1.0] * dim, budget=4 * dim)
    assert "the function is noisy" in run.message
    assert float((run.best_x**2).sum()) <= dim


def test_a_deterministic_function_is_asked_for_one_value_twice_at_few_blocks() -> None:
    asked = []

    def f(x: npt.NDArray[np.float64]) -> float:
        asked.append(x.tobytes())
        return float((np.arange(1, 13) * (x - 1) ** 2).sum())

    zotune.minimize(f, [3.0] * 12, budget=12 * 13)
    assert len(asked) - len(set(asked)) <= 1  # the start


@pytest.mark.parametrize("deviation", [0.01, 0.05, 0.2])
def test_an_answer_to_noise_stays_while_wider_searches_have_none_better(deviation: float) -> None:
    """A run that is stopped by its seconds at any moment has not lost what it had found."""
    f, bowl = noisy_bowl(deviation, 6)
    descent = Dialogue(METHODS["auto"], Start(np.zeros(6), f(np.zeros(6)), left=399))
    losses = [bowl(descent.x)]
    while not descent.done:
        descent.tell([f(x) for x in descent.ask()])
        losses.append(bowl(descent.x))
    lowest = np.minimum.accumulate(losses)
    assert min(losses) < losses[0] / 3
    assert (np.array(losses) <= lowest + 4 * deviation).all()


@pytest.mark.parametrize("seed", range(5))
def test_where_noise_hides_everything_the_start_is_kept(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def f(x: npt.NDArray[np.float64]) -> float:
        return float(1e-3 * (x**2).sum() + 1e3 * rng.standard_normal())

    run = zotune.minimize(f, [0.1] * 6, budget=400, seed=seed)
    assert run.chosen["method"].value == "smoothing"
    assert run.best_x.tolist() == [0.1] * 6


def test_outliers_of_a_deterministic_function_are_asked_again() -> None:
    rng = np.random.default_rng(3)

    def f(x: npt.NDArray[np.float64]) -> float:
        outlier = 50 * rng.standard_cauchy() if rng.random() < 0.15 else 0.0
        return float((np.arange(1, 9) * (x - 1) ** 2).sum()) + outlier

    run = zotune.minimize(f, [3.0] * 8, budget=1200)
    assert "some are outliers" in run.message
    assert float(abs(run.best_x - 1).max()) < 1e-4
    assert 0 <= run.best_loss < 1e-6


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
    run = zotune.minimize(banana, [-1.2, 1.0], budget=2000, target=1e-3)
    assert run.status == "stopped"
    assert run.best_loss <= 1e-3
    assert run.spent < 200
    assert run.message == "the target 0.001 was reached"
    assert run.success
    late = zotune.minimize(banana, [-1.2, 1.0], budget=2000, seconds=0.0, target=-1.0)
    assert (late.status, late.spent, late.success) == ("stopped", 1, False)
    assert late.message == "0 seconds were over"
    whole = zotune.minimize(banana, [-1.2, 1.0], budget=1, seconds=0.0)
    assert (whole.status, whole.message) == ("exhausted", "the budget of 1 evaluation was spent")


@pytest.mark.parametrize(
    "settings",
    [{}, {"replicates": 2}, {"estimator": "avg", "q": 1, "update": "sgd"}, {"estimator": "align"}],
    ids=str,
)
def test_the_curve_of_a_run_that_is_stopped_ends_where_it_stopped(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "run.safetensors"
    wanted = {"target": 0.5, "metrics": {"first": lambda x: float(x[0])}}
    run = zotune.minimize(
        lambda x: float(((x - 1) ** 2).sum()),
        np.zeros(5),
        budget=4000,
        checkpoint=file,
        **wanted,
        **settings,
    )
    for seen in (run, zotune.load_run(file)):
        last = seen.rows[-1]
        assert (last["status"], last["evaluations"]) == ("stopped", run.spent)
        assert last["best_loss"] == run.best_loss <= 0.5
        assert last["first"] > 0
        assert [row["status"] for row in seen.rows[:-1]] == ["running"] * (len(seen.rows) - 1)
    assert f"loss {run.rows[-1]['loss']:.6g}" in repr(run)


def test_a_budget_below_what_a_checkpoint_has_spent_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    zotune.minimize(banana, [-1.2, 1.0], budget=60, checkpoint=file)
    with pytest.raises(ZotuneError, match=r"has spent, \d+ evaluations, got 40; raise"):
        zotune.minimize(banana, [-1.2, 1.0], budget=40, checkpoint=file)


@pytest.mark.parametrize(
    ("tolerance", "said"),
    [({"ftol": 1e-9}, "best loss no longer fell"), ({"xtol": 1e-6}, "best point no longer moved")],
)
def test_a_tolerance_ends_a_run_that_has_converged(tolerance: dict[str, float], said: str) -> None:
    run = zotune.minimize(banana, [-1.2, 1.0], budget=3000, **tolerance)
    assert run.status == "stopped"
    assert said in run.message
    assert run.success
    assert run.best_loss < 1e-9
    assert run.nfev == run.spent < 600
    short = zotune.minimize(banana, [-1.2, 1.0], budget=40, **tolerance)
    assert (short.status, short.success) == ("exhausted", False)
    assert 36 < short.nfev <= 40


@pytest.mark.parametrize("name", ["ftol", "xtol"])
@pytest.mark.parametrize("unit", [2.0**-27, 1.0, 2.0**27])
def test_a_tolerance_ends_a_run_at_the_same_evaluation_whatever_the_unit(
    name: str, unit: float
) -> None:
    scaled = zotune.minimize(lambda x: unit * banana(x), [-1.2, 1.0], budget=3000, **{name: 1e-6})
    plain = zotune.minimize(banana, [-1.2, 1.0], budget=3000, **{name: 1e-6})
    assert scaled.nfev == plain.nfev
    assert scaled.success
    assert scaled.best_loss < 1e-9 * unit


def test_a_tolerance_of_x_is_of_its_unit() -> None:
    unit = 1e-6
    small = zotune.minimize(
        lambda x: banana(x / unit), [-1.2e-6, 1e-6], budget=3000, xtol=1e-4, scale=unit
    )
    assert small.success
    assert small.best_loss < 1e-6


@pytest.mark.parametrize("settings", [{}, {"estimator": "avg", "q": 1, "update": "sgd"}], ids=str)
def test_a_run_that_its_seconds_ended_is_no_success(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def f(x: Tensor) -> float:
        nonlocal calls
        calls += 1
        return banana(x)

    monkeypatch.setattr("zotune.runs.stopping.monotonic", lambda: math.inf if calls > 99 else 0.0)
    run = zotune.minimize(f, [-1.2, 1.0], budget=2000, seconds=60, **settings)
    assert (run.status, run.message) == ("stopped", "60 seconds were over")
    assert run.best_loss < run.state.start_loss
    assert not run.success


@pytest.mark.parametrize("settings", [{}, {"ftol": 1e-6}], ids=str)
def test_a_run_that_is_stuck_at_its_start_is_no_success_and_says_so(
    settings: dict[str, Any],
) -> None:
    run = zotune.minimize(lambda x: 3.0, [-1.2, 1.0], budget=200, **settings)
    assert not run.success
    assert "no point was found to be better than the start" in run.message
    assert zotune.minimize(lambda x: 3.0, [-1.2, 1.0], budget=200, target=3.0).success


def test_a_spent_budget_says_what_was_left_for_no_whole_block() -> None:
    for budget in range(37, 44):
        run = zotune.minimize(banana, [-1.2, 1.0], budget=budget)
        left = budget - run.nfev
        rest = f", but for {left}, too few for a whole block" if left else ""
        assert run.message == f"the budget of {budget} evaluations was spent{rest}"


def test_a_resumed_run_stops_for_its_tolerance_where_the_unbroken_one_does(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"budget": 3000, "ftol": 1e-9, "report_every": 20}
    whole = zotune.minimize(banana, [-1.2, 1.0], **settings)
    for broken_at in (whole.nfev - 25, whole.nfev - 3):
        calls = 0

        def f(x: Tensor, broken_at: int = broken_at) -> float:
            nonlocal calls
            calls += 1
            if calls == broken_at:
                raise KeyboardInterrupt
            return banana(x)

        path = tmp_path / f"run-{broken_at}"
        with pytest.raises(KeyboardInterrupt):
            zotune.minimize(f, [-1.2, 1.0], **settings, checkpoint=path)
        resumed = zotune.minimize(f, [-1.2, 1.0], **settings, checkpoint=path)
        assert resumed.nfev == whole.nfev
        assert resumed.message.startswith(whole.message)  # then, what was repeated
        assert torch.equal(resumed.x, whole.x)


@pytest.mark.parametrize("name", ["ftol", "xtol"])
def test_a_tolerance_is_judged_by_every_digit_that_was_known_before_a_kill(
    name: str, tmp_path: Path
) -> None:
    calls = 0

    def bowl(x: Tensor) -> float:
        nonlocal calls
        calls += 1
        if calls == broken_at:
            raise KeyboardInterrupt
        return float(((x - 1 / 3) ** 2).sum()) + 0.1

    settings: dict[str, Any] = {"budget": 3000, name: 1e-9}
    broken_at = 0
    whole = zotune.minimize(bowl, [0.0] * 6, **settings)
    calls, broken_at = 0, whole.nfev - 10
    with pytest.raises(KeyboardInterrupt):
        zotune.minimize(bowl, [0.0] * 6, **settings, checkpoint=tmp_path / "run")
    resumed = zotune.minimize(bowl, [0.0] * 6, **settings, checkpoint=tmp_path / "run")
    assert resumed.nfev == whole.nfev
    assert resumed.message.startswith(whole.message)  # then, what was repeated


@pytest.mark.parametrize("name", ["ftol", "xtol", "seconds"])
def test_a_tolerance_must_not_be_negative(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be a number of at least 0, got -1"):
        zotune.minimize(banana, [0.0, 0.0], budget=20, **{name: -1.0})


def test_a_run_whose_evaluations_mostly_fail_says_so() -> None:
    calls = 0

    def f(x: Tensor) -> float:
        nonlocal calls
        calls += 1
        return float((x**2).sum()) if calls % 3 == 1 else math.nan

    run = zotune.minimize(f, [1.0, 1.0], budget=60)
    assert run.failed == 40
    assert "40 of 60 evaluations failed, more than half" in run.message
    assert not run.success


def test_metrics_have_curves_of_their_own_and_cost_nothing() -> None:
    seen: list[type] = []

    def distance(x: npt.NDArray[np.float64]) -> float:
        seen.append(type(x))
        return float(np.abs(x - 1).max())

    metrics = {"distance": distance, "sum": lambda x: x.sum()}
    run = zotune.minimize(banana, [-1.2, 1.0], budget=200, metrics=metrics)
    assert run.nfev == 200
    assert set(seen) == {np.ndarray}
    assert run.curve["distance"].iloc[0] == pytest.approx(2.2)
    assert run.curve["distance"].iloc[-1] < 1e-3
    assert run.curve["sum"].iloc[-1] == pytest.approx(2.0, abs=1e-2)
    plain = zotune.minimize(banana, [-1.2, 1.0], budget=200)
    assert torch.equal(run.x, plain.x)


def test_metrics_are_in_the_rows_of_a_trial_and_of_a_chosen_estimator() -> None:
    bowl = zotune.objective(
        lambda x: (x**2).sum(), 3, L=2.0, metrics={"top": lambda x: abs(x).max() + 7}
    )
    trial = zotune.trainable(bowl, estimator="avg", q=3, budget=60)({})
    assert trial.step()["top"] == pytest.approx(7.0, abs=1e-3)
    rows: list[dict[str, Any]] = []
    zotune.minimize(bowl, [1.0, 2.0, 3.0], budget=60, q=3, on_report=rows.append)
    assert rows[-1]["top"] == pytest.approx(7.0, abs=1e-3)


def test_a_metric_must_not_take_the_name_of_a_column() -> None:
    with pytest.raises(ConfigError, match="no column of a row has, got 'loss'"):
        zotune.minimize(banana, [0.0, 0.0], budget=20, metrics={"loss": banana})
    with pytest.raises(ConfigError, match="metric 'top' must be a function of x, got float"):
        zotune.objective(banana, 2, metrics={"top": 1.0})  # type: ignore[dict-item]


def of_arrays(x):  # type: ignore[no-untyped-def]
    return np.sum(x.copy() ** 2)


def annotated(x: npt.NDArray[np.float64]) -> float:
    assert isinstance(x, np.ndarray)
    return float((x**2).sum())


def bowl_in_single_precision(x: np.ndarray) -> float:
    """Ill-conditioned, evaluated as networks are."""
    w = np.logspace(0, 2, len(x), dtype=np.float32)
    return float((w * (x.astype(np.float32) - np.float32(1)) ** 2).sum())


@pytest.mark.parametrize(("d", "blocks", "left"), [(300, 4, 0.1), (30, 12, 1e-6), (30, 40, 1e-12)])
def test_functions_in_single_precision_are_descended_as_those_in_double(
    d: int, blocks: int, left: float
) -> None:
    run = zotune.minimize(bowl_in_single_precision, np.zeros(d), budget=blocks * (d + 1))
    assert run.best_loss < left * bowl_in_single_precision(np.zeros(d))


def test_a_function_of_which_a_part_is_rounded_is_descended() -> None:
    """Kinks, and a price in double precision, so that values do not look rounded."""

    def f(x: np.ndarray) -> float:
        return bowl_in_single_precision(np.clip(x, 0, 3)) + 0.05 * float(x @ x)

    run = zotune.minimize(f, np.zeros(30), budget=20 * 31)
    assert run.best_loss < 1.7  # the minimum is 1.48


@pytest.mark.parametrize("function", [of_arrays, annotated])
def test_a_function_written_for_numpy_gets_numpy(function: Any) -> None:
    assert zotune.minimize(function, [1.0, 2.0], budget=60).best_loss < 1e-8


def test_arrays_can_be_asked_for_by_name() -> None:
    seen = set()

    def f(x: Any) -> float:
        seen.add(type(x))
        return float((x**2).sum())

    zotune.minimize(zotune.objective(f, 2, array="numpy", start=[1.0, 1.0]), budget=20)
    zotune.minimize(f, [1.0, 1.0], budget=20, array="numpy")
    assert seen == {np.ndarray}
    zotune.minimize(f, [1.0, 1.0], budget=20, array="torch")
    assert seen == {np.ndarray, Tensor}
    with pytest.raises(ConfigError, match="array is for a plain function"):
        zotune.minimize("quadratic", budget=20, array="numpy")


@pytest.mark.parametrize(
    ("start", "kind"),
    [([1.0, 1.0], np.ndarray), (np.ones(2), np.ndarray), (torch.ones(2), Tensor)],
)
def test_a_function_that_says_nothing_is_called_once_a_value_with_what_the_start_is(
    start: Any, kind: type
) -> None:
    calls: list[type] = []

    def f(x):  # type: ignore[no-untyped-def]
        calls.append(type(x))
        return float(sum(part**2 for part in x))

    run = zotune.minimize(f, start, budget=20, metrics={"first": lambda x: isinstance(x, kind)})
    assert calls == [kind] * run.nfev
    assert run.curve["first"].all()


def test_what_is_told_is_kept_and_the_rest_is_chosen_and_said() -> None:
    full = zotune.minimize(banana, [0.0, 0.0], budget=600, estimator="align")
    assert str(full.chosen["q"]).startswith("2: the budget covers 200 full blocks")
    assert full.chosen["update"].value == "lbfgs"
    assert full.best_loss < 1e-4
    few = zotune.minimize(banana, [0.0, 0.0], budget=600, estimator="avg")
    assert few.chosen["update"].value == "sgd"
    assert few.rows[-1]["loss"] < few.rows[0]["loss"]
    assert repr(few).startswith("Run(avg q=2, exhausted after 599 of 600 evaluations")
    assert few.config.q == "auto"


@pytest.mark.parametrize("key", ["estimator", "q", "update", "step"])
def test_a_default_that_is_stated_changes_nothing(key: str) -> None:
    said = zotune.minimize(banana, [0.0, 0.0], budget=60, **{key: "auto"})
    assert torch.equal(said.x, zotune.minimize(banana, [0.0, 0.0], budget=60).x)
    assert said.config.method == "auto"
    assert said.config.count == "evaluations"


CHOSEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an averaging estimator": ({"estimator": "avg"}, {"q": 3, "update": "sgd"}),
    "a projection": ({"estimator": "align"}, {"q": 9, "update": "lbfgs"}),
    "a projection without the budget": ({"estimator": "align", "budget": 60}, {"q": 8}),
    "a sum of projections": ({"estimator": "align-diag"}, {"q": 8, "update": "sgd"}),
    "a small block": ({"q": 4}, {"estimator": "align", "update": "sgd"}),
    "a block past the dimension": ({"q": 10}, {"estimator": "avg", "update": "sgd"}),
    "a rule past the dimension": ({"q": {"rule": "growth", "most": 40}}, {"estimator": "avg"}),
    "the theory's step": ({"step": "theory"}, {"estimator": "align", "q": 9, "update": "sgd"}),
    "a decaying step": ({"step": "sqrt-decay", "eta": 0.1}, {"q": 9, "update": "sgd"}),
    "quasi-Newton": ({"update": "lbfgs"}, {"estimator": "align", "q": 9}),
    "quasi-Newton with less": ({"update": "lbfgs", "budget": 60}, {"q": 9}),
    "adam": ({"update": "adam"}, {"estimator": "align", "q": 9}),
    "a momentum": ({"momentum": 0.5}, {"estimator": "align", "update": "momentum"}),
    "a radius": ({"mu": 1e-3}, {"estimator": "align", "q": 9, "update": "lbfgs"}),
    "a schedule": ({"schedule": "cosine"}, {"estimator": "align", "update": "sgd"}),
    "clipping": ({"clip": 1.0}, {"estimator": "avg", "q": 3, "update": "sgd"}),
    "central differences": ({"difference": "central"}, {"q": 9, "update": "lbfgs"}),
    "central ones without the budget": ({"difference": "central", "budget": 200}, {"q": 8}),
    "a step of one's own": ({"eta": 0.1}, {"q": 9, "update": "sgd"}),
    "a smoothness": ({"L": 2.0}, {"q": 9, "update": "sgd"}),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_each_setting_that_is_not_given_goes_with_those_that_are(case: str) -> None:
    given, wanted = CHOSEN[case]
    config = parse_config({"budget": 600, **given})
    resolved, choices = resolve(config, 9, batches=False)
    why = {one.setting: one for one in choices}
    assert {key: getattr(resolved, key) for key in wanted} == wanted
    assert all(getattr(resolved, key) == getattr(config, key) for key in given)
    assert config.method == "blocks"
    for key in ("estimator", "q", "update"):
        assert (key in why) == (key not in given)
        assert key in given or why[key].value == str(getattr(resolved, key))
    assert ("step" in why) == (resolved.step == "auto")


@pytest.mark.parametrize(
    ("given", "step"),
    [
        ({}, "auto"),
        ({"eta": 0.1}, "constant"),
        ({"eta": 0.1, "update": "adam"}, "constant"),
        ({"L": 2.0}, "theory"),
        ({"L": 2.0, "eta": 0.5}, "theory"),
        ({"L": 2.0, "update": "adam"}, "auto"),
        ({"L": 2.0, "estimator": "align-memory"}, "auto"),
        ({"eta": 0.5, "step": "auto"}, "auto"),
        ({"eta": None, "L": None}, "auto"),
    ],
)
def test_a_step_size_or_a_smoothness_says_which_step_is_meant(
    given: dict[str, Any], step: str
) -> None:
    assert parse_config({"budget": 60, **given}).step == step


def test_a_given_step_size_is_the_step_itself() -> None:
    alone = zotune.minimize(banana, [0.0, 0.0], budget=60, eta=1e-3)
    said = zotune.minimize(banana, [0.0, 0.0], budget=60, eta=1e-3, step="constant")
    assert torch.equal(alone.x, said.x)
    assert alone.config == said.config


def test_an_estimator_of_the_user_s_says_what_is_chosen_for_it() -> None:
    @zotune.estimators.register("whole", formula="U (UᵀU)⁻¹ v", exact=True, at_most_dim=True)
    def whole(v: Tensor, block: Any) -> Tensor:
        return block.solve(v)  # type: ignore[no-any-return]

    @zotune.estimators.register("half", formula="U v / 2q", preferred_q=5)
    def half(v: Tensor, block: Any) -> Tensor:
        return v / (2 * block.q)

    config = parse_config({"budget": 600, "estimator": "whole"})
    resolved, _ = resolve(config, 9, batches=False)
    assert (resolved.q, resolved.update) == (9, "lbfgs")
    config = parse_config({"budget": 600, "estimator": "half"})
    resolved, _ = resolve(config, 9, batches=False)
    assert (resolved.q, resolved.update) == (5, "sgd")


@given(
    settings=st.fixed_dictionaries(
        {},
        optional={
            "estimator": st.sampled_from(["avg", "align", "align-diag", "align-memory"]),
            "q": st.integers(1, 3),
            "update": st.sampled_from(["sgd", "momentum", "nesterov", "adam", "sign", "lbfgs"]),
            "step": st.sampled_from(["auto", "normalized"]),
            "directions": st.sampled_from(["gaussian", "orthogonal", "coordinate"]),
            "difference": st.sampled_from(["forward", "central"]),
            "count": st.sampled_from(["evaluations", "directions"]),
            "replicates": st.integers(1, 2),
            "mu": st.just(1e-5),
        },
    ),
    budget=st.integers(8, 90),
)
def test_whatever_is_given_a_run_keeps_its_budget(settings: dict[str, Any], budget: int) -> None:
    run = zotune.minimize(lambda x: (x**2).sum(), [1.0, 2.0, 3.0], budget=budget, **settings)
    assert 0 < run.spent <= budget
    named = {"estimator", "q", "update", "step", "repeats"}
    assert run.chosen.keys() <= named or run.config.method == "auto"


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
    settings = {"problem": {"name": "rosenbrock", "dim": 6}}
    settings |= {"budget": 400, "replicates": 2, "curve": True}
    trial = zotune.ZOTrainable(dict(settings))
    rows = [trial.step() for _ in range(5)]
    trial.save_checkpoint(str(tmp_path))
    resumed = zotune.ZOTrainable(dict(settings))
    resumed.load_checkpoint(str(tmp_path))
    others = list(rows)
    for one, its in ((trial, rows), (resumed, others)):
        while not its[-1]["done"]:
            its.append(one.step())
    for row in (*rows, *others):
        row.pop("seconds", None)  # of the clock
        row["_zotune_curve"] = untimed(row["_zotune_curve"])
    assert others == rows
    points = [point["spent"] for row in rows for point in row["_zotune_curve"]]
    assert points == sorted(set(points))
    assert (points[0], points[-1]) == (0, 400)


@pytest.mark.parametrize("x0", [[3.0], [2.0], [2.0, 2.0, 2.0]])
@pytest.mark.parametrize("budget", [10, 20])
def test_a_start_at_a_bound_or_beyond_it_is_left(x0: list[float], budget: int) -> None:
    run = zotune.minimize(lambda x: (x**2).sum(), x0, bounds=(0, 2), budget=budget)
    assert run.best_loss < 0.5 * 4 * len(x0)


def test_a_run_that_goes_on_with_a_larger_budget_finishes_its_plan_and_begins_at_its_best(
    tmp_path: Path,
) -> None:
    """A descent plans with its budget, so told values belong to the budget that it began with."""

    def value(x: np.ndarray) -> float:
        return float(((x - 1) ** 2) @ np.arange(1, 9) + abs(np.sin(9 * x)).sum())

    bowl = zotune.objective(value, 8, start=np.zeros(8), array="numpy")
    settings = {"estimator": "auto", "q": "auto", "update": "auto", "step": "auto"}
    small = Loop(parse_config({**settings, "budget": 60, "count": "evaluations"}), bowl)
    state = small.advance(small.init(), 30)
    file = save_loop(small, state, tmp_path / "state.safetensors")
    ended = small.advance(state)
    large = Loop(parse_config({**settings, "budget": 500, "count": "evaluations"}), bowl)
    longer = large.advance(load_loop(large, file)[0])
    assert longer.ledger.evaluations <= 500
    assert float(longer.best_loss) < float(ended.best_loss)
    assert value(longer.best_x[0].numpy()) == pytest.approx(float(longer.best_loss), rel=1e-12)
    cut = large.advance(load_loop(large, file)[0], 200)
    save_loop(large, cut, file)
    again = Loop(large.config, bowl)
    assert torch.equal(again.advance(load_loop(again, file)[0]).x, longer.x)


@pytest.mark.parametrize("batch", [4, 16, 64])
def test_mini_batches_too_small_to_trust_are_descended_all_the_same(batch: int) -> None:
    """The best step on few samples is far too long for all of them: runs ended at their start."""
    problem = {"name": "stochastic-logistic", "dim": 20, "seed": 30, "batch": batch}
    run = zotune.minimize(problem, budget=800, progress=False)
    assert run.minimum is not None
    assert run.best_loss - run.minimum < 0.4 * (run.curve["loss"][0] - run.minimum)


@pytest.mark.parametrize("budget", [250, 450])
def test_a_budget_of_few_full_blocks_descends_mini_batches(budget: int) -> None:
    """Many steps of small blocks ended at four times the start."""
    problem = {"name": "stochastic-logistic", "dim": 100, "samples": 500, "batch": 8, "seed": 63}
    run = zotune.minimize(problem, budget=budget, progress=False, replicates=4)
    assert run.rows[-1]["loss"] < 1.1 * run.curve["loss"][0]


@pytest.mark.parametrize("estimator", ["avg", "align"])
@pytest.mark.parametrize("q", [1, 8])
def test_searched_steps_on_small_mini_batches_do_not_run_away(estimator: str, q: int) -> None:
    """Steps were as long as each mini-batch alone allowed: these ended 20 to 100 times higher."""
    problem = {"name": "stochastic-logistic", "dim": 50, "samples": 500, "batch": 8, "seed": 61}
    settings = {"estimator": estimator, "q": q, "update": "sgd", "step": "auto", "mu": 1e-6}
    run = zotune.minimize(problem, budget=3000, progress=False, replicates=4, **settings)
    assert run.rows[-1]["loss"] < 3 * run.curve["loss"][0]


def test_mini_batches_have_full_blocks_where_the_budget_covers_five_and_else_five_blocks() -> None:
    config = parse_config({"budget": 60})
    assert resolve(config, 9, batches=True)[0].q == 9
    assert resolve(config, 90, batches=True)[0].q == 10  # and f(x), and a trial: five times
    assert resolve(config, 900, batches=True)[0].q == 8  # too many coordinates for five steps
    assert resolve(parse_config({"budget": 4}), 10, batches=True)[0].q == 2  # all that it covers
    assert resolve(config, 9, batches=True)[0].update == "sgd"


def test_a_run_of_another_version_of_the_descent_is_not_continued(tmp_path: Path) -> None:
    """Its values were told for points that this version does not ask for."""
    bowl = zotune.objective(lambda x: (x**2).sum(), 3, start=torch.ones(3))
    settings = {"estimator": "auto", "q": "auto", "update": "auto", "step": "auto"}
    loop = Loop(parse_config({**settings, "budget": 60, "count": "evaluations"}), bowl)
    (lane,) = loop.advance(loop.init(), 20).lanes
    assert lane.told is not None
    older = Told(lane.told.values, lane.told.planned, "1")
    file = save_loop(loop, State((lane.but(told=older),)), tmp_path / "state.safetensors")
    assert zotune.load_run(file).spent == lane.ledger.evaluations
    newer = METHODS["auto"].stamp
    with pytest.raises(ConfigError, match=f"run of its version 1 with version {newer}"):
        load_loop(loop, file)


def ask_all(f: Any, x0: Any, budget: int) -> Dialogue:
    descent = Dialogue(METHODS["auto"], Start(x0, float(f(x0)), left=budget - 1))
    while not descent.done:
        descent.tell([f(x) for x in descent.ask()])
    return descent


def test_small_budgets_find_out_that_a_function_is_rugged() -> None:
    def wavy(x: npt.NDArray[np.float64]) -> float:
        return float(((x - 1) ** 2).sum() + 2 * (1 - np.cos(15 * (x - 1))).sum())

    start = np.linspace(2, 5, 20)
    found = ask_all(wavy, start, 20 * 21)
    assert found.start.choices["method"].value == "smoothing"
    assert found.best < 0.3 * wavy(start)  # quasi-Newton alone has 0.72


def test_small_budgets_measure_the_diagonal_where_coordinates_differ() -> None:
    scales = 10 ** np.linspace(0, 5, 20)
    found = ask_all(lambda x: float(scales @ x**2), np.ones(20), 15 * 21)
    assert found.best < 1e-6 * scales.sum()


def test_a_gradient_of_few_coordinates_is_not_taken_for_ruggedness() -> None:
    def chain(x: npt.NDArray[np.float64]) -> float:
        return float((x[0] - 1) ** 2 + ((x[1:] - x[:-1]) ** 2).sum() + (x[-1] + 1) ** 2)

    assert ask_all(chain, np.zeros(20), 15 * 21).start.choices["method"].value == "quasi-newton"


def test_small_budgets_see_noise_and_keep_the_start_where_nothing_is_better() -> None:
    rng = np.random.default_rng(0)
    found = ask_all(lambda x: float(rng.normal()), np.ones(20), 12 * 21)
    assert "noise" in found.start.choices
    assert found.x.tolist() == [1.0] * 20


@given(seed=st.integers(0, 50), power=st.sampled_from([0, 1]))
def test_directions_that_no_pair_has_seen_have_the_longer_scale(seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    hessian = np.diag(10 ** rng.uniform(0, 4, 6))
    s, diagonal = rng.normal(size=6), 10 ** rng.uniform(0, 4, 6)
    y = hessian @ s
    unseen = rng.normal(size=6)
    unseen -= s * float(unseen @ y) / float(s @ y)  # conjugate, so that H₀ alone counts
    unseen = hessian @ unseen
    lengths = []
    for is_long in (False, True):
        memory = Memory(diagonal, is_long=is_long)
        memory.add(s, y)
        lengths.append(float(unseen @ memory.times(unseen, power)))
    assert lengths[1] >= lengths[0] > 0


def test_a_seed_below_zero_is_one_for_the_descent_too() -> None:
    runs = [zotune.minimize(banana, [0.0, 0.0], budget=90, seed=seed) for seed in (-1, -1, 5)]
    assert torch.equal(runs[0].x, runs[1].x)
    assert all(run.best_loss < 1e-3 for run in runs)
