"""The theory: every formula against the paper and against a simulation of its own claim."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import zotune
from tests.instrument import minimize
from zotune.addresses import replicate_keys
from zotune.blocks import DenseBlock
from zotune.core.budget import COUNTS, Budget, Ledger
from zotune.core.differences import DIFFERENCES, get_difference
from zotune.directions import DIRECTIONS
from zotune.errors import ConfigError, UnknownNameError
from zotune.estimators import ESTIMATORS, Estimator, Moments
from zotune.objectives.quadratic import Quadratic
from zotune.objectives.stochastic_logistic import StochasticLogistic
from zotune.theory import (
    Allocation,
    Estimation,
    best_block,
    best_stochastic_block,
    best_stochastic_step,
    closed_form_block,
    convex_bound,
    geometric,
    least_stochastic_bound,
    log_contraction,
    method,
    nonconvex_bound,
    search_block,
    stochastic_bound,
    stochastic_cap,
    strongly_convex_bound,
)

DIM = 12
DRAWS = 2000
UNEQUAL = [3, 1, 5, 5, 2, 12]

WITH_THEORY = [name for name, entry in ESTIMATORS.items() if entry.moments is not None]
ESTIMATOR = pytest.mark.parametrize("estimator", WITH_THEORY)
KIND = pytest.mark.parametrize("kind", list(DIRECTIONS))
COUNT = pytest.mark.parametrize("count", COUNTS)
DIFFERENCE = pytest.mark.parametrize("difference", list(DIFFERENCES))


def budget_of(limit: int, count: str = "directions", difference: str = "forward") -> Budget:
    return Budget(limit, count, get_difference(difference))


@cache
def drawn(kind: str, q: int) -> torch.Tensor:
    """Many independent blocks of directions, which take longest to draw: tests share them."""
    rows = torch.empty(DRAWS, q, DIM, dtype=torch.float64)
    keys = replicate_keys("directions", 11, range(DRAWS))
    DIRECTIONS[kind].sampler(DIM, keys, torch.device("cpu")).fill(rows, 0, range(q), range(DIM))
    return rows


def estimates(estimator: str, kind: str, q: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A gradient, and independent estimates of it for mu → 0."""
    rows = drawn(kind, q).clone()
    block = DenseBlock(rows, orthogonal=DIRECTIONS[kind].orthogonal)
    g = torch.linspace(-1, 2, DIM, dtype=torch.float64)
    return g, block.combine(ESTIMATORS[estimator](rows @ g, block))


def error_of(samples: torch.Tensor) -> float:
    """The standard error of a mean; what rounding leaves of it where nothing varies."""
    return max(float(samples.std()) / len(samples) ** 0.5, 1e-12)


@pytest.mark.parametrize("q", [1, 4, 9])
@KIND
@ESTIMATOR
def test_moments_and_error_are_those_of_simulated_estimates(
    estimator: str, kind: str, q: int
) -> None:
    g, found = estimates(estimator, kind, q)
    how = method(estimator, DIM, kind)
    alignment, energy = found @ g / (g @ g), found.square().sum(-1) / (g @ g)
    mse = (found - g).square().sum(-1) / (g @ g)
    moments = how.moments(q)
    assert float(alignment.mean()) == pytest.approx(moments.alignment, abs=4 * error_of(alignment))
    assert float(energy.mean()) == pytest.approx(moments.energy, abs=4 * error_of(energy))
    assert float(mse.mean()) == pytest.approx(how.mse(q), abs=4 * error_of(mse))


@KIND
@ESTIMATOR
def test_the_mean_estimate_points_along_the_gradient(estimator: str, kind: str) -> None:
    """E ĝ = a·g, coordinate by coordinate, which the convex theorems need."""
    g, found = estimates(estimator, kind, 4)
    a = method(estimator, DIM, kind).moments(4).alignment
    errors = found.std(0) / DRAWS**0.5
    assert ((found.mean(0) - a * g).abs() <= 4.5 * errors).all()


@KIND
@ESTIMATOR
def test_the_best_step_decreases_a_bowl_as_stated_and_others_less(
    estimator: str, kind: str
) -> None:
    """On f = (L/2) ‖x‖² the smoothness bound is an equality."""
    L, how = 5.0, method(estimator, DIM, kind)
    x, found = estimates(estimator, kind, 4)  # estimates of x stand for those of g = L x
    eta = how.step(4, L=L)

    def decrease(step: float) -> torch.Tensor:
        return L / 2 * (x @ x - (x - step * L * found).square().sum(-1))

    at_best = decrease(eta)
    stated = how.progress(4) * L**2 * float(x @ x) / (2 * L)
    assert float(at_best.mean()) == pytest.approx(stated, abs=4 * error_of(at_best))
    for other in (0.7, 1.4):
        difference = at_best - decrease(other * eta)
        assert float(difference.mean()) > 4 * error_of(difference)


@pytest.mark.parametrize("q", [1, 3, DIM])
def test_errors_and_steps_are_those_of_the_paper(q: int) -> None:
    avg, align = method("avg", DIM), method("align", DIM)
    assert avg.mse(q) == pytest.approx((DIM + 1) / q)
    assert align.mse(q) == pytest.approx((DIM - q) / DIM)
    assert avg.step(q, L=3.0) == pytest.approx(q / (3 * (q + DIM + 1)))
    assert align.step(q, L=3.0) == pytest.approx(1 / 3)


@pytest.mark.parametrize("q", [1, 3, DIM])
def test_errors_and_steps_beyond_the_paper(q: int) -> None:
    """Directions of norm √d, orthogonal directions, the diagonal of the Gram matrix."""
    for kind in ("sphere", "rademacher"):
        assert method("avg", DIM, kind).mse(q) == pytest.approx((DIM - 1) / q)
        assert method("avg", DIM, kind).step(q) == pytest.approx(q / (q + DIM - 1))
    for kind in ("orthogonal", "coordinate"):
        assert method("avg", DIM, kind).mse(q) == pytest.approx((DIM - q) / q)
        assert method("avg", DIM, kind).progress(q) == method("align", DIM, kind).progress(q)
    diagonal = method("align-diag", DIM)
    assert diagonal.mse(q) == pytest.approx(1 - q / DIM + q * (q - 1) / DIM**2)
    assert diagonal.step(q) == pytest.approx(DIM / (DIM + q - 1))


def mean_rank_of_signs(q: int, d: int) -> float:
    """Over all q × d matrices of signs; a first row and a first column of ones stand for all."""
    free = (q - 1) * (d - 1)
    bits = (torch.arange(2**free)[:, None] >> torch.arange(free)) & 1
    signs = torch.ones(2**free, q, d, dtype=torch.float64)
    signs[:, 1:, 1:] = (1 - 2 * bits).view(2**free, q - 1, d - 1).double()
    return float(torch.linalg.matrix_rank(signs).double().mean())


@pytest.mark.parametrize(("d", "q"), [(d, q) for d in (1, 2, 3, 4, 5) for q in range(1, d + 1)])
def test_projection_on_random_signs_counts_on_no_more_than_their_mean_rank(d: int, q: int) -> None:
    """A square block of signs is often singular: its estimate is not the gradient."""
    rank, stated = mean_rank_of_signs(q, d), d * method("align", d, "rademacher").progress(q)
    assert 0.95 * rank <= stated <= rank * (1 + 1e-12)
    if q <= 2:
        assert stated == pytest.approx(rank), "exact for a pair"


@pytest.mark.parametrize("kind", ["gaussian", "sphere", "orthogonal", "coordinate"])
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_a_full_block_of_other_directions_gives_the_gradient(d: int, kind: str) -> None:
    assert method("align", d, kind).mse(d) == 0
    rows = torch.empty(500, d, d, dtype=torch.float64)
    keys = replicate_keys("directions", 3, range(500))
    DIRECTIONS[kind].sampler(d, keys, torch.device("cpu")).fill(rows, 0, range(d), range(d))
    assert (torch.linalg.matrix_rank(rows) == d).all()


def test_random_signs_lose_no_more_than_one_direction_of_many() -> None:
    signs = method("align", 1000, "rademacher")
    assert signs.mse(1000) == pytest.approx(1 / 1000)
    assert signs.mse(900) == pytest.approx(100 / 1000)
    assert method("align", 10**9, "rademacher").progress(7) == 7 / 10**9


@pytest.mark.parametrize("d", [2, 3, 4, 6])
def test_the_strongly_convex_bound_holds_for_square_blocks_of_signs(d: int) -> None:
    quadratic = Quadratic(dim=d, condition=1.1)
    assert quadratic.L is not None
    assert quadratic.gamma is not None
    settings: dict[str, Any] = {"estimator": "align", "directions": "rademacher"}
    run = minimize(quadratic, q=d, budget=2 * d, replicates=400, mu=1e-5, **settings)
    bound = strongly_convex_bound(
        method("align", d, "rademacher"),
        Allocation.of([d, d]),
        L=quadratic.L,
        gamma=quadratic.gamma,
        gap=run.rows[0]["gap"],
    )
    assert 0.2 * bound < run.rows[-1]["gap"] <= bound


def test_strongly_convex_bounds_are_those_of_the_paper() -> None:
    known: dict[str, Any] = {"L": 4.0, "gamma": 0.5, "gap": 7.0}
    avg = 7 * math.prod(1 - 0.5 * q / (4 * (q + DIM + 1)) for q in UNEQUAL)
    align = 7 * math.prod(1 - 0.5 * q / (4 * DIM) for q in UNEQUAL)
    blocks = Allocation.of(UNEQUAL)
    assert strongly_convex_bound(method("avg", DIM), blocks, **known) == pytest.approx(avg)
    assert strongly_convex_bound(method("align", DIM), blocks, **known) == pytest.approx(align)


def test_convex_bounds_are_those_of_the_paper() -> None:
    known: dict[str, Any] = {"L": 4.0, "distance": 3.0, "gap": 7.0}
    avg = 4 * (9 + 2 / 4 * 7) / sum(2 * q / (q + DIM + 1) for q in UNEQUAL)
    align = DIM / (2 * sum(UNEQUAL)) * (4 * 9 + 2 * 7)
    blocks = Allocation.of(UNEQUAL)
    assert convex_bound(method("avg", DIM), blocks, **known) == pytest.approx(avg)
    assert convex_bound(method("align", DIM), blocks, **known) == pytest.approx(align)


def test_nonconvex_bounds_are_those_of_the_paper() -> None:
    avg = 2 * 4 * 7 / sum(q / (q + DIM + 1) for q in UNEQUAL)
    align = 2 * 4 * DIM * 7 / sum(UNEQUAL)
    blocks = Allocation.of(UNEQUAL)
    assert nonconvex_bound(method("avg", DIM), blocks, L=4.0, gap=7.0) == pytest.approx(avg)
    assert nonconvex_bound(method("align", DIM), blocks, L=4.0, gap=7.0) == pytest.approx(align)


def test_stochastic_bounds_are_those_of_the_paper() -> None:
    known: dict[str, Any] = {"eta0": 1e-3, "L": 4.0, "distance": 3.0, "noise": 2.0}
    steps = list(enumerate(UNEQUAL))
    avg = (9 + 2 * 1e-6 * 4 * sum((q + DIM + 1) / (q * (t + 1)) for t, q in steps)) / (
        1e-3 * sum(1 / math.sqrt(t + 1) for t, _ in steps)
    )
    align = (DIM * 9 + 2 * 1e-6 * 4 * sum(q / (t + 1) for t, q in steps)) / (
        1e-3 * sum(q / math.sqrt(t + 1) for t, q in steps)
    )
    blocks = Allocation.of(UNEQUAL)
    assert stochastic_bound(method("avg", DIM), blocks, **known) == pytest.approx(avg)
    assert stochastic_bound(method("align", DIM), blocks, **known) == pytest.approx(align)


def test_stochastic_caps_are_those_of_the_paper() -> None:
    assert stochastic_cap(method("avg", DIM), Allocation.of([1]), L=3.0) == pytest.approx(
        1 / (4 * 3 * (DIM + 2))
    )
    assert stochastic_cap(method("align", DIM), Allocation.of(UNEQUAL), L=3.0) == pytest.approx(
        1 / 12
    )


def test_a_rescaled_last_step_may_follow_a_larger_first() -> None:
    """One direction after a block of six takes the step of one direction, not of six."""
    avg, blocks = method("avg", DIM), Allocation.of([6, 1])
    assert stochastic_cap(avg, blocks, L=1.0, rescaled=True) == avg.step(6, L=4.0)
    assert stochastic_cap(avg, blocks, L=1.0) == avg.step(1, L=4.0) * math.sqrt(2)
    eta = [avg.step(6, L=4.0), avg.step(1, L=4.0) / math.sqrt(2)]
    energies = [(6 + DIM + 1) / 6, (1 + DIM + 1) / 1]
    expected = (1 + 2 * sum(e * s**2 for e, s in zip(energies, eta, strict=True))) / sum(eta)
    known: dict[str, Any] = {"L": 1.0, "distance": 1.0, "noise": 1.0, "rescaled": True}
    assert stochastic_bound(avg, blocks, eta0=eta[0], **known) == pytest.approx(expected)


@pytest.mark.parametrize(("estimator", "q"), [("avg", 1), ("avg", 8), ("align", 8), ("align", 20)])
def test_the_strongly_convex_bound_is_what_an_even_bowl_does(estimator: str, q: int) -> None:
    """With L = γ all its inequalities are equalities; the budget ends in a shrunken block."""
    bowl = Quadratic(dim=20, condition=1.0)
    run = minimize(bowl, estimator=estimator, q=q, budget=50, replicates=300, mu=1e-5)
    assert bowl.minimum is not None
    gap, blocks = run.rows[0]["gap"], Allocation.constant(q, budget_of(50))
    bound = strongly_convex_bound(method(estimator, 20), blocks, L=1.0, gamma=1.0, gap=gap)
    gaps = bowl.values(run.x) - bowl.minimum
    assert float(gaps.mean()) == pytest.approx(bound, abs=4 * error_of(gaps) + 1e-8)


@KIND
@ESTIMATOR
def test_the_strongly_convex_bound_holds_for_the_mean(estimator: str, kind: str) -> None:
    quadratic = Quadratic(dim=20, condition=4.0)
    assert quadratic.L is not None
    assert quadratic.gamma is not None
    settings: dict[str, Any] = {"estimator": estimator, "directions": kind, "replicates": 50}
    for q in (1, 13):
        run = minimize(quadratic, q=q, budget=100, **settings)
        bound = strongly_convex_bound(
            method(estimator, 20, kind),
            Allocation.constant(q, budget_of(100)),
            L=quadratic.L,
            gamma=quadratic.gamma,
            gap=run.rows[0]["gap"],
        )
        assert run.rows[-1]["gap"] <= bound < run.rows[0]["gap"]


@ESTIMATOR
def test_the_convex_bound_holds_for_the_mean(estimator: str) -> None:
    quadratic = Quadratic(dim=20, condition=50.0)
    assert quadratic.L is not None
    distance = float((quadratic.start() - quadratic.optimum).norm())
    for q in (1, 13):
        run = minimize(quadratic, estimator=estimator, q=q, budget=400, replicates=20)
        start = run.rows[0]["gap"]
        blocks = Allocation.constant(q, budget_of(400))
        bound = convex_bound(
            method(estimator, 20), blocks, L=quadratic.L, distance=distance, gap=start
        )
        assert run.rows[-1]["gap"] <= bound < start


@ESTIMATOR
def test_the_nonconvex_bound_holds_for_the_mean(estimator: str) -> None:
    """Σ 1 − cos xᵢ is smooth with L = 1, not convex, and at least 0."""
    waves = zotune.objective(
        lambda x: (1 - x.cos()).sum(-1), 20, batched=True, L=1.0, optimum=0.0, name="waves"
    )
    waves.gradient = torch.sin  # type: ignore[method-assign]
    x0 = torch.linspace(0.5, 3.0, 20)
    for q in (1, 13):
        run = minimize(waves, estimator=estimator, q=q, budget=200, replicates=20, x0=x0)
        blocks = Allocation.constant(q, budget_of(200))
        bound = nonconvex_bound(method(estimator, 20), blocks, L=1.0, gap=run.rows[0]["gap"])
        seen = [row["grad_norm2"] for row in run.rows if row["steps"] < blocks.steps]
        assert min(seen) <= bound < seen[0]


@pytest.mark.parametrize(("estimator", "q"), [("avg", 1), ("avg", 8), ("align", 8), ("align", 10)])
def test_the_stochastic_bound_holds_for_the_mean(estimator: str, q: int) -> None:
    loss = StochasticLogistic(dim=10, samples=60, batch=20, rho=0.2)
    assert loss.minimum is not None
    blocks = Allocation.constant(q, budget_of(1004))
    known = {"L": loss.batch_L, "distance": float(loss.optimum.norm()), "noise": loss.noise}
    eta0, bound = least_stochastic_bound(method(estimator, 10), blocks, **known)
    run = minimize(
        loss, estimator=estimator, q=q, budget=1004, step="sqrt-decay", eta=eta0, replicates=20
    )
    reached = run.rows[-1]["average_loss"] - loss.minimum
    assert reached <= bound < 10 * reached, "true, and not by miles"


def test_the_best_stochastic_step_is_where_the_bound_is_least() -> None:
    align, blocks = method("align", DIM), Allocation.of([4] * 30)
    known: dict[str, Any] = {"L": 1.0, "distance": 1.0, "noise": 3.0}
    eta0 = best_stochastic_step(align, blocks, **known)
    bound = stochastic_bound(align, blocks, eta0=eta0, **known)
    assert eta0 < stochastic_cap(align, blocks, L=1.0)
    for factor in (0.9, 1.1):
        assert stochastic_bound(align, blocks, eta0=factor * eta0, **known) > bound
    quiet = known | {"noise": 1e-3}
    assert best_stochastic_step(align, blocks, **quiet) == stochastic_cap(align, blocks, L=1.0)


@pytest.mark.parametrize("limit", [2, 6, 7, 40, 41])
@DIFFERENCE
@COUNT
def test_constant_allocations_are_what_runs_do(count: str, difference: str, limit: int) -> None:
    budget = budget_of(limit, count, difference)
    q = budget.block(Ledger(), 3)
    run = minimize(
        {"name": "quadratic", "dim": 5}, q=q, budget=limit, count=count, difference=difference
    )
    blocks = Allocation.constant(q, budget)
    assert (blocks.steps, blocks.queries) == (run.state.steps, run.state.ledger.queries)
    assert blocks.total(budget.difference.evaluations) == run.state.ledger.evaluations


@given(st.integers(0, 200), st.integers(1, 3000), st.sampled_from([0.5, 1.0]))
def test_decaying_sums_are_exact(start: int, times: int, power: float) -> None:
    blocks = Allocation(((1, start), (2, times)))
    expected = math.fsum((1 if t < start else 2) / (t + 1) ** power for t in range(start + times))
    assert blocks.decayed(float, power) == pytest.approx(expected, rel=1e-11)


def test_long_allocations_cost_nothing() -> None:
    blocks = Allocation.constant(1, budget_of(10**15))
    assert blocks.decayed(float, 0.5) == pytest.approx(2 * math.sqrt(1e15), rel=1e-6)
    assert convex_bound(method("avg", 10**9), blocks, L=1.0, distance=1.0, gap=0.0) < 1e-5


@pytest.mark.parametrize("dim", [1, 2, 7, 50, 333])
@DIFFERENCE
@COUNT
@KIND
@ESTIMATOR
def test_the_best_block_is_that_of_an_exhaustive_search(
    estimator: str, kind: str, count: str, difference: str, dim: int
) -> None:
    how, budget = method(estimator, dim, kind), budget_of(10**6, count, difference)
    values = {q: how.progress(q) / budget.cost(q) for q in range(1, dim + 1)}
    found = best_block(how, budget)
    assert values[found] == pytest.approx(max(values.values()), rel=2e-9, abs=0)
    if math.isclose(values[1], values[dim], rel_tol=1e-12):
        assert found == dim, "where every block is as good, the largest"


@pytest.mark.parametrize("dim", [15, 255, 10**6 - 1])
def test_averaging_wants_the_root_of_the_dimension_where_every_evaluation_counts(dim: int) -> None:
    charged = budget_of(10**6, "evaluations")
    assert closed_form_block(method("avg", dim), charged) == pytest.approx(math.sqrt(dim + 1))
    sphere = method("avg", dim, "sphere")
    assert closed_form_block(sphere, charged) == pytest.approx(math.sqrt(dim - 1))
    assert best_block(method("avg", dim), charged) == round(math.sqrt(dim + 1))


@DIFFERENCE
def test_the_paper_wants_one_direction_for_averaging_and_all_for_projection(
    difference: str,
) -> None:
    paper = budget_of(20_000, "directions", difference)
    assert best_block(method("avg", 1000), paper) == 1
    assert best_block(method("align", 1000), paper) == 1000


def test_central_differences_restore_the_rule_of_the_paper() -> None:
    charged = budget_of(20_000, "evaluations", "central")
    assert best_block(method("avg", 1000), charged) == 1


def test_the_optimum_is_flat() -> None:
    """A factor 3 in q costs 4 percent of the progress."""
    avg, charged = method("avg", 1000), budget_of(20_000, "evaluations")

    def value(q: int) -> float:
        return avg.progress(q) / charged.cost(q)

    for q in (32 * 3, 32 // 3):
        assert 1 - value(q) / value(32) == pytest.approx(0.04, abs=0.01)


def test_full_blocks_contract_most_in_the_strongly_convex_regime() -> None:
    align = method("align", 100)
    factors = [
        log_contraction(align, Allocation.constant(q, budget_of(1000)), condition=5.0)
        for q in (1, 10, 50, 100)
    ]
    assert factors == sorted(factors, reverse=True)
    assert factors[-1] == pytest.approx(10 * math.log(1 - 1 / 5))


def test_even_blocks_are_best_for_averaging_and_uneven_ones_for_projection() -> None:
    even, uneven = Allocation.of([5, 5]), Allocation.of([9, 1])
    avg, align = method("avg", DIM), method("align", DIM)
    assert log_contraction(avg, even, condition=2.0) < log_contraction(avg, uneven, condition=2.0)
    assert log_contraction(align, uneven, condition=2.0) < log_contraction(
        align, even, condition=2.0
    )


def test_contraction_is_exact_for_the_worst_condition() -> None:
    """There 1 − p/condition would round to 1."""
    align, blocks = method("align", 1000), Allocation.of([1] * 100)
    found = log_contraction(align, blocks, condition=1e20)
    assert found == pytest.approx(-100 / 1000 * 1e-20, rel=1e-9, abs=0)


def test_a_bowl_is_solved_by_one_full_block() -> None:
    align = method("align", DIM)
    assert strongly_convex_bound(align, Allocation.of([DIM]), L=2.0, gamma=2.0, gap=9.0) == 0.0


def test_averaging_wants_one_direction_only_under_a_shared_cap() -> None:
    """The paper's stochastic claim, and what becomes of it when each q has its own cap."""
    avg, L = method("avg", 100), 1.0
    shared = stochastic_cap(avg, Allocation.of([1]), L=L)
    known: dict[str, Any] = {"L": L, "distance": 1.0, "noise": 0.1}
    sizes = (1, 10, 50, 100)
    blocks = [Allocation.constant(q, budget_of(5000)) for q in sizes]
    under_one = [stochastic_bound(avg, b, eta0=shared, **known) for b in blocks]
    under_own = [least_stochastic_bound(avg, b, **known)[1] for b in blocks]
    assert under_one == sorted(under_one)
    assert under_own == sorted(under_own, reverse=True)


@pytest.mark.parametrize("noise", [0.0, 1.0, 30.0])
@COUNT
@ESTIMATOR
def test_the_best_stochastic_block_is_near_that_of_an_exhaustive_search(
    estimator: str, count: str, noise: float
) -> None:
    how, budget = method(estimator, 60), budget_of(700, count)
    known: dict[str, Any] = {"L": 1.0, "distance": 1.0, "noise": noise}
    bounds = {
        q: least_stochastic_bound(how, Allocation.constant(q, budget), **known)[1]
        for q in range(1, 61)
    }
    found = best_stochastic_block(how, budget, noise=noise)
    assert bounds[found] <= 1.005 * min(bounds.values())


def test_an_estimator_without_a_closed_form_is_searched() -> None:
    """Progress q/(q + d + q²/10) peaks, under any cost, where no formula is known."""

    def moments(directions: Any, q: int, d: int) -> Moments:
        return Moments(1.0, (q + d + q**2 / 10) / q)

    entry = Estimator("odd", "", "", lambda v, block: v, moments)
    odd, charged = Estimation(entry, DIRECTIONS["gaussian"], 2000), budget_of(10**6, "evaluations")
    assert closed_form_block(odd, charged) is None
    values = [odd.progress(q) / charged.cost(q) for q in range(1, 2001)]
    assert best_block(odd, charged) == 1 + values.index(max(values))


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_search_finds_the_peak_of_a_unimodal_function(peak: int, most: int) -> None:
    found = search_block(lambda q: -abs(math.log(q / peak)), most)
    assert found == min(peak, most)


@pytest.mark.parametrize("most", [1, 40, 257, 258, 10**6])
def test_of_equal_blocks_the_largest_is_found(most: int) -> None:
    assert search_block(lambda q: 1.0, most) == most
    assert search_block(lambda q: -math.inf if q > 7 else 2.0, most) == min(7, most)


@given(st.integers(1, 10**9), st.integers(0, 10**9))
def test_geometric_grids_have_their_ends(low: int, more: int) -> None:
    grid = geometric(low, low + more)
    assert (grid[0], grid[-1]) == (low, low + more)
    assert grid == sorted(set(grid))
    assert len(grid) <= 33


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"estimator 'alig' is not known \(did you mean"):
        method("alig", DIM)
    with pytest.raises(UnknownNameError, match=r"directions 'gauss' is not known \(did you mean"):
        method("avg", DIM, "gauss")


def test_an_estimator_without_moments_has_no_theory(monkeypatch: pytest.MonkeyPatch) -> None:
    mute = Estimator("mute", "", "", lambda v, block: v)
    monkeypatch.setitem(ESTIMATORS._entries, "mute", mute)
    with pytest.raises(ConfigError, match=r"'mute' declares no moments.*register it with moments"):
        method("mute", DIM)


@pytest.mark.parametrize(
    ("estimator", "kind", "what"),
    [
        ("align", "gaussian", "estimator 'align'"),
        ("avg", "orthogonal", "directions 'orthogonal'"),
        ("align-diag", "coordinate", "directions 'coordinate'"),
    ],
)
def test_blocks_that_no_run_can_have_are_refused(estimator: str, kind: str, what: str) -> None:
    how, blocks = method(estimator, DIM, kind), Allocation.of([DIM, DIM + 1])
    known: dict[str, Any] = {"L": 1.0, "distance": 1.0, "noise": 1.0}
    refused: list[Callable[[], object]] = [
        lambda: how.mse(DIM + 1),
        lambda: how.step(DIM + 1),
        lambda: how.progress(DIM + 1),
        lambda: log_contraction(how, blocks, condition=2.0),
        lambda: convex_bound(how, blocks, L=1.0, distance=1.0, gap=1.0),
        lambda: nonconvex_bound(how, blocks, L=1.0, gap=1.0),
        lambda: stochastic_cap(how, blocks, L=1.0),
        lambda: best_stochastic_step(how, blocks, **known),
        lambda: least_stochastic_bound(how, blocks, **known),
    ]
    for ask in refused:
        with pytest.raises(
            ConfigError, match=rf"at most the dimension for {what}, got q=13 with d=12; lower q"
        ):
            ask()


def test_independent_directions_may_be_more_than_the_dimension() -> None:
    assert method("avg", DIM).mse(2 * DIM) == pytest.approx((DIM + 1) / (2 * DIM))


def test_numbers_that_are_no_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"q must be a whole number of at least 1, got 0"):
        method("avg", DIM).mse(0)
    with pytest.raises(ConfigError, match=r"dim must be a whole number of at least 1, got 0"):
        method("avg", 0)


@pytest.mark.parametrize("eta0", [0.0, -1.0, 0.3, float("nan")])
def test_a_step_beyond_the_cap_is_refused(eta0: float) -> None:
    with pytest.raises(ConfigError, match=r"holds for 0 < eta0 ≤ 0\.25 .*, got .*; lower eta0"):
        stochastic_bound(
            method("align", DIM), Allocation.of([3]), eta0=eta0, L=1.0, distance=1.0, noise=1.0
        )


def test_a_condition_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"L/gamma must be at least 1, got 0\.5"):
        strongly_convex_bound(method("align", DIM), Allocation.of([3]), L=1.0, gamma=2.0, gap=1.0)


def test_theory_does_not_wait_for_torch() -> None:
    code = (
        "import sys; from zotune.theory import Allocation, convex_bound, method; "
        "convex_bound(method('avg', 9), Allocation.of([1]), L=1, distance=1, gap=1); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
