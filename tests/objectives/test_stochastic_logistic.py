"""The stochastic logistic loss: its mini-batches by address, its constants, its runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.instrument import minimize
from zotune.addresses import replicate_keys
from zotune.errors import ConfigError
from zotune.objectives import build_problem
from zotune.objectives.logistic import signed_rows
from zotune.objectives.stochastic_logistic import StochasticLogistic

OPTIONS: dict[str, Any] = {"dim": 10, "samples": 80, "batch": 6, "rho": 0.01, "seed": 2}
SMALL = StochasticLogistic(**OPTIONS)
ROWS = signed_rows("stochastic-logistic", 2, 80, 10)


def keys(*replicates: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return replicate_keys("batches", 0, replicates or range(4))


def points(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def naive(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.log(1 + torch.exp(x @ rows.mT)).mean(-1) + 0.005 * (x * x).sum(-1)


def batch_gradients(x: torch.Tensor, steps: int) -> torch.Tensor:
    """∇F at one point for many mini-batches, (steps, d)."""
    single = torch.sigmoid(ROWS @ x)[:, None] * ROWS + 0.01 * x
    index = torch.cat([SMALL.batch_indices(keys(0), step) for step in range(steps)])
    return single[index].mean(1)


def test_values_are_the_formula_on_all_samples() -> None:
    x = points(5, 10)
    assert torch.allclose(SMALL.values(x), naive(x, ROWS), rtol=1e-13)


def test_a_step_sees_the_formula_on_its_mini_batch() -> None:
    x, index = points(4, 3, 10), SMALL.batch_indices(keys(), 9)
    assert index.shape == (4, 6)
    seen = SMALL.sample(keys(), 9)(x)
    for replicate in range(4):
        expected = naive(x[replicate], ROWS[index[replicate]])
        assert torch.allclose(seen[replicate], expected, rtol=1e-13)


def test_all_evaluations_of_a_step_share_its_mini_batch() -> None:
    x = points(4, 1, 10).expand(4, 3, 10)
    once, twice = SMALL.sample(keys(), 5)(x.clone()), SMALL.sample(keys(), 5)(x.clone())
    assert torch.equal(once, twice)
    assert torch.allclose(once, once[:, :1].expand(4, 3), rtol=1e-14)


def test_a_replicate_sees_the_same_mini_batch_alone_and_among_others() -> None:
    together = SMALL.batch_indices(keys(), 7)
    for replicate in range(4):
        assert torch.equal(SMALL.batch_indices(keys(replicate), 7)[0], together[replicate])


def test_steps_and_replicates_see_different_mini_batches() -> None:
    drawn = torch.cat([SMALL.batch_indices(keys(), step) for step in range(-1, 49)])
    assert len(drawn.unique(dim=0)) == len(drawn)


def test_samples_are_drawn_evenly_and_independently() -> None:
    index = torch.cat([SMALL.batch_indices(keys(0), step) for step in range(4000)])
    share, error = 1 / 80, (1 / 80 / index.numel()) ** 0.5
    counts = torch.bincount(index.flatten(), minlength=80) / index.numel()
    assert (counts - share).abs().max() < 4.5 * error
    pairs = (index[:, 0] == index[:, 1]).double().mean()
    assert abs(pairs - share) < 4 * (share / 4000) ** 0.5


def test_the_mean_over_mini_batches_is_the_loss() -> None:
    x = points(1, 1, 10)
    seen = torch.stack([SMALL.sample(keys(0), step)(x)[0, 0] for step in range(2000)])
    error = float(seen.std()) / 2000**0.5
    assert float(seen.mean()) == pytest.approx(SMALL.values(x[0]).item(), abs=4 * error)


def test_the_gradient_is_the_derivative_of_the_values() -> None:
    x = points(3, 10).requires_grad_()
    (expected,) = torch.autograd.grad(naive(x, ROWS).sum(), x)
    assert torch.allclose(SMALL.gradient(x.detach()), expected, atol=1e-14)


def test_the_minimum_is_where_the_gradient_vanishes() -> None:
    assert SMALL.gradient(SMALL.optimum[None]).norm() < 1e-8
    assert SMALL.values(SMALL.optimum[None]).item() == pytest.approx(SMALL.minimum, rel=1e-14)
    nearby = SMALL.optimum + 1e-3 * points(20, 10)
    assert SMALL.minimum is not None
    assert (SMALL.values(nearby) > SMALL.minimum).all()


def test_curvature_lies_between_gamma_and_smoothness() -> None:
    assert SMALL.L is not None
    assert SMALL.gamma == 0.01
    at_zero = torch.autograd.functional.hessian(
        lambda x: naive(x, ROWS), torch.zeros(10, dtype=torch.float64)
    )
    assert pytest.approx(float(torch.linalg.eigvalsh(at_zero)[-1])) == SMALL.L
    far = torch.autograd.functional.hessian(lambda x: naive(x, ROWS), 50 * points(2, 10)[0])
    eigenvalues = torch.linalg.eigvalsh(far)
    assert eigenvalues[0] >= 0.01 * (1 - 1e-9)
    assert eigenvalues[-1] <= SMALL.L


def test_noise_is_the_spread_of_mini_batch_gradients_at_the_minimum() -> None:
    squares = batch_gradients(SMALL.optimum, 4000).square().sum(-1)
    error = float(squares.std()) / 4000**0.5
    assert float(squares.mean()) == pytest.approx(SMALL.noise**2, abs=4 * error)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_mini_batches_are_as_smooth_in_the_mean_as_stated(scale: float) -> None:
    x = SMALL.optimum + scale * points(2, 10)[0]
    apart = batch_gradients(x, 1000) - batch_gradients(SMALL.optimum, 1000)
    assert SMALL.minimum is not None
    gap = SMALL.values(x[None]).item() - SMALL.minimum
    assert float(apart.square().sum(-1).mean()) <= 2 * SMALL.batch_L * gap


def test_one_mini_batch_of_everything_would_be_as_smooth_as_the_loss() -> None:
    large = StochasticLogistic(**(OPTIONS | {"batch": 10**6}))
    assert large.L is not None
    assert SMALL.L is not None
    assert large.batch_L == pytest.approx(large.L, rel=1e-4)
    assert SMALL.batch_L > 1.5 * SMALL.L


def test_points_are_left_alone() -> None:
    x = points(4, 2, 10)
    before = x.clone()
    SMALL.sample(keys(), 0)(x)
    SMALL.values(x[0])
    assert torch.equal(x, before)


def test_a_run_reports_the_last_and_the_average_iterate_on_all_samples() -> None:
    run = minimize(SMALL, q=5, budget=300, step="sqrt-decay", eta=1.0, replicates=3)
    average = run.state.average / run.state.average_weight
    row = run.rows[-1]
    assert row["loss"] == pytest.approx(SMALL.values(run.x).mean().item())
    assert row["average_loss"] == pytest.approx(SMALL.values(average).mean().item())
    assert row["gap"] == pytest.approx(row["loss"] - SMALL.minimum)
    assert row["loss"] < run.rows[0]["loss"]


def test_replicates_run_alone_as_they_run_together() -> None:
    settings: dict[str, Any] = {"q": 3, "budget": 90, "step": "sqrt-decay", "eta": 1.0, "mu": 1e-4}
    together = minimize(SMALL, replicates=3, **settings)
    alone = minimize(SMALL, replicate=2, **settings)
    assert torch.allclose(alone.x[0], together.x[2], atol=1e-8)


def test_float32_is_the_same_function() -> None:
    single, x = StochasticLogistic(**OPTIONS, dtype="float32"), points(4, 2, 10)
    seen = single.sample(keys(), 3)(x.float())
    assert seen.dtype == torch.float32
    assert torch.allclose(seen.double(), SMALL.sample(keys(), 3)(x), rtol=1e-5)
    assert single.minimum == SMALL.minimum


@pytest.mark.parametrize(
    "other", [{"seed": 3}, {"samples": 81}, {"batch": 7}, {"rho": 0.02}, {"dim": 11}]
)
def test_the_fingerprint_tells_instances_apart(other: dict[str, Any]) -> None:
    assert StochasticLogistic(**OPTIONS).fingerprint() == SMALL.fingerprint()
    assert StochasticLogistic(**(OPTIONS | other)).fingerprint() != SMALL.fingerprint()


@pytest.mark.parametrize("rho", [0, -1.0, float("nan"), float("inf"), "1e-3"])
def test_a_penalty_must_be_a_positive_number(rho: object) -> None:
    with pytest.raises(
        ConfigError,
        match=r"problem\.rho must be a positive number, got .*'logistic' has no penalty",
    ):
        build_problem({"name": "stochastic-logistic", "dim": 3, "rho": rho})


def test_a_batch_must_hold_a_sample() -> None:
    with pytest.raises(
        ConfigError, match=r"problem\.batch must be a whole number of at least 1, got 0"
    ):
        build_problem({"name": "stochastic-logistic", "batch": 0})


def test_one_pass_gives_the_losses_of_both_points_and_the_gradient_of_the_first() -> None:
    loss = StochasticLogistic(dim=7, samples=40, batch=4)
    points = torch.randn(3, 2, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values, gradient = loss.values_and_gradient(points)
    torch.testing.assert_close(values, loss.values(points.flatten(0, 1)).view(3, 2))
    torch.testing.assert_close(gradient, loss.gradient(points[:, 0]))
