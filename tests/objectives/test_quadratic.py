"""The quadratic of the paper, and the numbers measured on it."""

from __future__ import annotations

import pytest
import torch

from tests.instrument import minimize
from zotune.errors import ConfigError
from zotune.objectives import build_problem
from zotune.objectives.quadratic import Quadratic


def test_gradient_optimum_and_constants_are_those_of_the_function() -> None:
    f = Quadratic(dim=12, seed=3)
    x = torch.randn(4, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(f.values(x).sum(), x)
    assert torch.allclose(gradient, f.gradient(x.detach()))
    assert f.gradient(f.optimum[None]).norm() < 1e-6
    assert float(f.values(f.optimum[None])) == pytest.approx(f.minimum, rel=1e-9)
    eigenvalues = torch.linalg.eigvalsh(f.a)
    assert pytest.approx(float(eigenvalues[-1])) == f.L
    assert f.gamma == pytest.approx(float(eigenvalues[0]))


@pytest.mark.parametrize("condition", [None, 100.0])
def test_the_matrix_is_its_own_transpose_to_the_last_digit(condition: float | None) -> None:
    a = Quadratic(dim=200, condition=condition).a
    assert torch.equal(a, a.mT)


def test_the_condition_is_what_was_asked_for() -> None:
    f = Quadratic(dim=30, condition=50.0)
    assert f.L is not None
    assert f.gamma is not None
    assert f.L / f.gamma == pytest.approx(50)
    with pytest.raises(ConfigError, match=r"problem.condition must be at least 1, got 0.5"):
        Quadratic(dim=3, condition=0.5)


def test_the_seed_fixes_the_instance() -> None:
    one, same, other = Quadratic(dim=5, seed=1), Quadratic(dim=5, seed=1), Quadratic(dim=5, seed=2)
    assert torch.equal(one.a, same.a)
    assert torch.equal(one.start(), same.start())
    assert not torch.equal(one.a, other.a)
    assert one.fingerprint() != other.fingerprint()


def test_float32_is_the_same_instance_rounded() -> None:
    wide, narrow = Quadratic(dim=8), Quadratic(dim=8, dtype="float32")
    assert narrow.a.dtype == torch.float32
    assert torch.equal(wide.a.float(), narrow.a)
    with pytest.raises(ConfigError, match="dtype 'float46' is not known"):
        build_problem({"name": "quadratic", "dim": 3, "dtype": "float46"})


@pytest.mark.parametrize("dim", [0, -1, 2.5, True])
def test_a_dimension_is_a_whole_number(dim: object) -> None:
    with pytest.raises(ConfigError, match=r"problem.dim must be a whole number of at least 1"):
        build_problem({"name": "quadratic", "dim": dim})


# f − f* at d = 1000, K = 20 000 at the theory step, as measured before on two other instances.
# Instances differ by about a tenth; central differences, so that q = d is free of its bias.
MEASURED = {
    ("avg", 100): 5875,
    ("avg", 500): 8771,
    ("avg", 1000): 12537,
    ("align", 100): 5195,
    ("align", 500): 5004,
    ("align", 1000): 4442,
}


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "q"), MEASURED)
def test_the_dichotomy_at_the_theory_step_is_the_one_measured_before(
    estimator: str, q: int
) -> None:
    run = minimize(
        {"name": "quadratic", "dim": 1000},
        estimator=estimator,
        q=q,
        budget=20_000,
        difference="central" if q == 1000 else "forward",
        replicates=2,
    )
    assert run.rows[-1]["gap"] == pytest.approx(MEASURED[estimator, q], rel=0.15)


@pytest.mark.parametrize("estimator", ["avg", "align"])
def test_one_block_of_five_hundred_lands_where_the_algebra_says(estimator: str) -> None:
    """E f(x − ηĝ) = f − η gᵀEĝ + ½η² tr(A E ĝĝᵀ), with E ĝĝᵀ = a ggᵀ + b‖g‖² I."""
    d, q, f = 1000, 500, Quadratic(dim=1000)
    assert f.L is not None
    run = minimize(f, estimator=estimator, q=q, budget=q, replicates=10)
    g = f.gradient(f.start()[None])[0]
    if estimator == "avg":
        eta, mean, a, b = q / (q + d + 1) / f.L, 1.0, (q + 1) / q, 1 / q
    else:
        eta, mean = 1 / f.L, q / d
        b = (q / d - q * (q + 2) / (d * (d + 2))) / (d - 1)
        a = q / d - b * d
    bend = a * g @ f.a @ g + b * (g @ g) * f.a.trace()
    expected = float(f.values(f.start()[None])) - eta * mean * g @ g + eta**2 / 2 * bend
    losses = run.state.loss
    assert abs(losses.mean() - expected) < 5 * losses.std() / 10**0.5


def test_with_five_hundred_queries_averaging_loses_and_projection_gains_by_large_blocks() -> None:
    def gap(estimator: str, q: int) -> float:
        run = minimize("quadratic", estimator=estimator, q=q, budget=500, replicates=2)
        return float(run.rows[-1]["gap"])

    assert gap("align", 500) < gap("align", 1) < gap("avg", 500)
    assert gap("avg", 1) < gap("avg", 500)


def test_the_gradient_that_comes_with_a_step_s_values_changes_none_of_them() -> None:
    quadratic = build_problem({"name": "quadratic", "dim": 30})
    points = torch.randn(4, 6, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values, gradient = quadratic.values_and_gradient(points)
    assert torch.equal(values.flatten(), quadratic.values(points.flatten(0, 1)))
    assert gradient is not None
    assert torch.allclose(gradient, quadratic.gradient(points[:, 0]), rtol=1e-12, atol=1e-10)
