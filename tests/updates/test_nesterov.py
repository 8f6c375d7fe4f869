"""Acceleration: its bound holds for small and full blocks, and it restarts where it must."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import zotune
from zotune.directions import DIRECTIONS
from zotune.estimators import ESTIMATORS
from zotune.objectives.quadratic import Quadratic
from zotune.updates.nesterov import nesterov, weigh

DIM = 40
PROBLEM = {"name": "quadratic", "dim": DIM, "condition": 1000.0}
SETTINGS: dict[str, Any] = {"problem": PROBLEM, "step": "theory", "mu": 1e-6}


def run_of(told: dict[str, Any], **settings: Any) -> zotune.Run:
    told = told | settings
    return zotune.minimize(told.pop("problem"), **told)


def bound(omega: float, steps: int, gap: float, smooth: float, distance2: float) -> float:
    """4ω² A / (k + 2ω − 1)², A = (1 − 1/ω)(f(x₀) − f*) + L‖x₀ − x*‖²/2."""
    start = (1 - 1 / omega) * gap + smooth * distance2 / 2
    return 4 * omega**2 * start / (steps + 2 * omega - 1) ** 2


@pytest.mark.parametrize("estimator", ["avg", "align"])
@pytest.mark.parametrize("q", [1, 8, DIM])
def test_convex_functions_end_below_the_proven_bound(estimator: str, q: int) -> None:
    problem = Quadratic(dim=DIM, condition=1000.0)
    told = SETTINGS | {"estimator": estimator, "q": q, "count": "directions", "replicates": 8}
    run = run_of(told, update="nesterov", budget=4000)
    omega = ESTIMATORS[estimator].spread(DIRECTIONS["gaussian"], q, DIM)
    distance2 = float((problem.start() - problem.optimum).square().sum())
    first = run.rows[0]["gap"]
    limit = bound(omega, run.rows[-1]["steps"], first, problem.L, distance2)
    assert run.rows[-1]["gap"] < limit < first


@pytest.mark.parametrize("q", [1, 8, DIM])
def test_acceleration_beats_plain_descent_at_the_same_step(q: int) -> None:
    told = SETTINGS | {"estimator": "align", "q": q, "count": "directions", "replicates": 4}
    ends = {
        update: run_of(told, update=update, budget=2000).rows[-1]["gap"]
        for update in ("sgd", "nesterov")
    }
    assert ends["nesterov"] < ends["sgd"] / 2


def test_one_coordinate_is_nesterov_s_own_method() -> None:
    """f(x) = x²/2 with ω = 1, as the textbook's y, x and t = 1/θ have it."""
    y, x, slots = 1.0, 1.0, {name: torch.zeros(1).double() for name in ("ahead", "age")}
    z, mine = 1.0, torch.ones(1).double()
    for k in range(10):
        mine -= nesterov(mine.clone(), slots, 0.3, k)
        theta, following = 2 / (k + 2), 2 / (k + 3)
        x, z = y - 0.3 * y, z - 0.3 * y / theta
        y = (1 - following) * x + following * z
        assert float(mine) == pytest.approx(y, rel=1e-12)


def test_it_restarts_only_where_the_momentum_leads_uphill_beyond_doubt() -> None:
    def gram(cosine: float) -> torch.Tensor:
        return torch.tensor([[4.0, 6.0 * cosine], [6.0 * cosine, 9.0]]).double()

    assert weigh(gram(-0.1), 5, spread=1.0, dim=100).tolist() == [1.0]
    assert weigh(gram(0.1), 5, spread=1.0, dim=100).tolist() == [0.0]
    assert weigh(gram(0.1), 5, spread=100.0, dim=100).tolist() == [1.0]
    assert weigh(gram(0.6), 5, spread=100.0, dim=100).tolist() == [0.0]
    assert weigh(torch.zeros(2, 2).double(), 0, spread=1.0, dim=1).tolist() == [1.0]
