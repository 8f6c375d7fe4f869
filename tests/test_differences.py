"""Differences: v from values, what they cost, and the radius they take by themselves."""

from __future__ import annotations

import pytest
import torch

from zotune.core.differences import DIFFERENCES, default_mu, get_difference
from zotune.errors import UnknownNameError
from zotune.objectives import build_problem


def test_forward_and_central_quotients() -> None:
    values = torch.tensor([[1.0, 3.0, 5.0]])
    assert get_difference("forward").quotient(values, 2.0).tolist() == [[1.0, 2.0]]
    values = torch.tensor([[3.0, 5.0, 1.0, 2.0]])
    assert get_difference("central").quotient(values, 0.5).tolist() == [[2.0, 3.0]]


@pytest.mark.parametrize("name", list(DIFFERENCES))
def test_columns_of_all_parts_make_up_a_step(name: str) -> None:
    difference = get_difference(name)
    columns = [0] if difference.knows_center else []
    for part in (range(3), range(3, 5)):
        for side in difference.columns(part, 5):
            columns += range(side.start, side.stop)
    assert sorted(columns) == list(range(difference.evaluations(5)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("difference", list(DIFFERENCES))
@pytest.mark.parametrize("problem", ["quadratic", "rosenbrock", "logistic"])
def test_the_default_radius_is_near_the_best_of_a_wide_range(
    problem: str, difference: str, dtype: str
) -> None:
    f = build_problem({"name": problem, "dim": 300, "dtype": dtype})
    x = f.start()[None]
    u = torch.randn(50, 300, generator=torch.Generator().manual_seed(0)).to(f.dtype)
    exact = u.double() @ build_problem({"name": problem, "dim": 300}).gradient(x.double())[0]  # type: ignore[index]

    def error(mu: float) -> float:
        ends = [f.values(x + mu * u), f.values(x - mu * u if difference == "central" else x)]
        v = (ends[0] - ends[1]).double() / (2 * mu if difference == "central" else mu)
        return float((v - exact).norm() / exact.norm())

    found = error(default_mu(f.dtype, difference))
    assert found < (1e-3 if dtype == "float64" else 0.03)
    assert found < 0.1 * max(error(10.0**-k) for k in range(1, 10))


def test_an_unknown_difference_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"difference 'centre' .*did you mean 'central'"):
        get_difference("centre")
