"""The convex logistic loss: values, constants, the comparator and what runs make of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.instrument import minimize
from zotune.addresses import instance_generator
from zotune.errors import ConfigError
from zotune.objectives import build_problem
from zotune.objectives.logistic import Logistic, ridge_minimizer, signed_rows
from zotune.theory import Allocation, convex_bound, method

SMALL = Logistic(dim=12, samples=30, seed=3)


def points(n: int, scale: float = 1.0, dim: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n)
    return scale * torch.randn(n, dim, dtype=torch.float64, generator=generator)


def naive(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.log(1 + torch.exp(x @ rows.mT)).mean(-1)


def test_values_are_the_formula() -> None:
    x, rows = points(7), signed_rows("logistic", 3, 30, 12)
    assert torch.allclose(SMALL.values(x), naive(x, rows), rtol=1e-14)


def test_the_loss_at_zero_is_log_two() -> None:
    assert SMALL.values(SMALL.start()[None]).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("scale", [30.0, 1e3, 1e6])
def test_values_are_stable_where_exponentials_overflow(scale: float) -> None:
    """There log(1 + exp z) is max(z, 0) up to exp(−|z|)."""
    x, rows = points(4, scale), signed_rows("logistic", 3, 30, 12)
    margins = x @ rows.mT
    exact = (margins.clamp_min(0) + torch.log1p(torch.exp(-margins.abs()))).mean(-1)
    assert torch.allclose(SMALL.values(x), exact, rtol=1e-14)


def test_values_leave_their_points_alone() -> None:
    x = points(5)
    before = x.clone()
    SMALL.values(x)
    assert torch.equal(x, before)


def test_the_gradient_is_the_derivative_of_the_values() -> None:
    x, rows = points(3).requires_grad_(), signed_rows("logistic", 3, 30, 12)
    (expected,) = torch.autograd.grad(naive(x, rows).sum(), x)
    assert torch.allclose(SMALL.gradient(x.detach()), expected, atol=1e-14)


@pytest.mark.parametrize("samples", [8, 12, 40])
def test_smoothness_is_the_largest_curvature_which_is_met_at_zero(samples: int) -> None:
    loss = Logistic(dim=12, samples=samples)
    rows = signed_rows("logistic", 0, samples, 12)
    hessian = torch.autograd.functional.hessian(
        lambda x: naive(x, rows), torch.zeros(12, dtype=torch.float64)
    )
    assert pytest.approx(float(torch.linalg.eigvalsh(hessian)[-1])) == loss.L


@given(st.floats(0.01, 10), st.integers(1, 50))
def test_gradients_are_lipschitz_everywhere(scale: float, seed: int) -> None:
    x, y = points(seed, scale)[0], points(seed + 100, scale)[0]
    moved = (SMALL.gradient(x[None]) - SMALL.gradient(y[None])).norm()
    assert SMALL.L is not None
    assert moved <= SMALL.L * (x - y).norm() * (1 + 1e-12)


@pytest.mark.parametrize("samples", [10, 60])
def test_the_infimum_is_zero_because_the_rule_separates_the_data(samples: int) -> None:
    """Also with more samples than dimensions."""
    loss = Logistic(dim=12, samples=samples)
    assert loss.minimum == 0.0
    reached = [loss.comparator(penalty).value for penalty in (1e-2, 1e-4, 1e-8)]
    assert 0 < reached[2] < 1e-4 < reached[1] < reached[0]


def test_labels_are_those_of_the_rule() -> None:
    """Drawn again here: features first, then w, along which the loss vanishes."""
    rng = instance_generator("logistic", 3)
    features, rule = (torch.from_numpy(rng.standard_normal(n)) for n in ((30, 12), 12))
    assert SMALL.values(1e4 * rule[None]).item() < 1e-6
    labels = torch.sign(features @ rule)
    assert torch.equal(signed_rows("logistic", 3, 30, 12), -labels[:, None] * features)


@pytest.mark.parametrize("penalty", [1e-6, 0.05, 3.0])
def test_the_comparator_is_where_the_penalised_loss_is_stationary(penalty: float) -> None:
    z, value = SMALL.comparator(penalty)
    assert SMALL.gradient(z[None])[0].add(z, alpha=penalty).norm() <= 1e-7 * penalty**0.5
    assert SMALL.values(z[None]).item() == pytest.approx(value)


def test_newton_finds_its_minimiser_from_far() -> None:
    rows = 100 * signed_rows("logistic", 1, 40, 5)
    x = ridge_minimizer(rows, 1e-6)
    gradient = torch.sigmoid(rows @ x) @ rows / 40 + 1e-6 * x
    assert gradient.norm() <= 1e-10


@pytest.mark.parametrize(("estimator", "q"), [("align", 1), ("align", 40), ("avg", 1), ("avg", 7)])
def test_the_bound_with_a_comparator_holds_for_the_mean(estimator: str, q: int) -> None:
    loss = Logistic(dim=40, samples=40)
    assert loss.L is not None
    budget = 400
    run = minimize(loss, estimator=estimator, q=q, budget=budget, replicates=20)
    z, value = loss.comparator(40 * loss.L / budget)
    excess = convex_bound(
        method(estimator, 40),
        Allocation.of([q] * (budget // q) + [budget % q] * (budget % q > 0)),
        L=loss.L,
        distance=float(z.norm()),
        gap=math.log(2),
    )
    assert run.rows[-1]["loss"] <= value + excess
    assert value + excess < math.log(2), "a bound above the start would say nothing"


def test_the_instance_is_fixed_by_its_seed() -> None:
    x = points(3)
    assert torch.equal(Logistic(dim=12, samples=30, seed=3).values(x), SMALL.values(x))
    assert not torch.equal(Logistic(dim=12, samples=30, seed=4).values(x), SMALL.values(x))


def test_float32_is_the_same_function() -> None:
    single = Logistic(dim=12, samples=30, seed=3, dtype="float32")
    values = single.values(points(6).float())
    assert values.dtype == torch.float32
    assert torch.allclose(values.double(), SMALL.values(points(6)), rtol=1e-5)
    assert single.comparator(0.1).point.dtype == torch.float32


@pytest.mark.parametrize("other", [{"seed": 4}, {"samples": 31}, {"dim": 13}, {"dtype": "float32"}])
def test_the_fingerprint_tells_instances_apart(other: dict[str, Any]) -> None:
    options: dict[str, Any] = {"dim": 12, "samples": 30, "seed": 3}
    assert Logistic(**options).fingerprint() == SMALL.fingerprint()
    assert Logistic(**(options | other)).fingerprint() != SMALL.fingerprint()


def test_a_number_of_samples_must_be_one() -> None:
    with pytest.raises(
        ConfigError, match=r"problem\.samples must be a whole number of at least 1, got 0"
    ):
        build_problem({"name": "logistic", "samples": 0})


@pytest.mark.parametrize(("estimator", "measured"), [("avg", 0.1219), ("align", 0.0700)])
def test_full_blocks_reach_what_was_measured_before(estimator: str, measured: float) -> None:
    """At d = 1000 and K = 20 000, on another instance: these differ by some percent.

    Central differences, because a square Gaussian block now and then magnifies the bias of forward
    ones until a run is spoilt.
    """
    run = minimize(
        "logistic", estimator=estimator, q=1000, budget=20_000, mu=1e-6, difference="central"
    )
    assert run.rows[-1]["loss"] == pytest.approx(measured, rel=0.1)


def test_averaging_wants_small_blocks_and_projection_does_not_mind() -> None:
    """At the theory step; 200 dimensions, K = 20 d as in the paper."""

    def loss(estimator: str, q: int) -> tuple[float, float]:
        problem = {"name": "logistic", "dim": 200, "samples": 200}
        run = minimize(problem, estimator=estimator, q=q, budget=4000, replicates=4)
        row = run.rows[-1]
        return row["loss"], row["loss_std"] / 2

    (few, few_error), (many, many_error) = loss("avg", 2), loss("avg", 200)
    assert many - few > 5 * math.hypot(few_error, many_error)
    (few, few_error), (many, many_error) = loss("align", 2), loss("align", 200)
    assert abs(many - few) < 0.2 * few
