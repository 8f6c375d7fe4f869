"""Curvature from a few extra queries."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from zotune.blocks import DenseBlock
from zotune.errors import ConfigError
from zotune.evaluators import SERIAL
from zotune.iterates import Answer, Request
from zotune.loop.curvature import Curvature, estimate_curvature, probes_for, probing_cost

WIDE, NARROW = torch.float64, torch.float32


def probed(
    f: Callable[[Tensor], Tensor],
    at: float | list[float],
    dtype: torch.dtype = WIDE,
    mu: float | None = None,
) -> Curvature:
    """Around points with ten equal coordinates, a replicate for each number."""
    x = torch.tensor(at, dtype=dtype).reshape(-1, 1).repeat(1, 10)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(1, 8, 10, dtype=WIDE, generator=generator).to(dtype)
    block = DenseBlock(rows.repeat(len(x), 1, 1))
    return SERIAL.run(estimate_curvature, lambda at: Request(lambda: Answer(f(at))), x, block, mu)


def bowl(x: Tensor) -> Tensor:
    return x.square().sum(-1)


def slope(x: Tensor) -> Tensor:
    return x @ torch.linspace(-1, 2, 10, dtype=x.dtype)


def test_trace_and_curvature_along_the_gradient_of_a_quadratic() -> None:
    d = 40
    eigenvalues = torch.linspace(1, 9, d, dtype=torch.float64)
    x = torch.ones(2, d, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    block = DenseBlock(torch.randn(2, d, d, dtype=torch.float64, generator=generator))
    calls = 0

    def f(points: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += points.shape[1]
        return (eigenvalues * points**2).sum(-1) / 2

    found = SERIAL.run(estimate_curvature, lambda at: Request(lambda: Answer(f(at))), x, block)
    gradient = eigenvalues
    along = float((eigenvalues * gradient**2).sum() / (gradient**2).sum())
    spread = float((2 * eigenvalues.square().sum() / d) ** 0.5)
    assert found.smoothness.tolist() == pytest.approx([along] * 2, rel=1e-3)
    assert found.trace.tolist() == pytest.approx([float(eigenvalues.sum())] * 2, abs=5 * spread)
    assert (d + 1, calls) == probing_cost(d)


@pytest.mark.parametrize(
    ("q", "budget", "expected"), [(1, 1000, 8), (1, 40, 4), (1, 5, 1), (100, 5000, 100)]
)
def test_probes_are_as_many_as_a_step_has_within_a_tenth_of_the_budget(
    q: int, budget: int, expected: int
) -> None:
    assert probes_for(q, budget) == expected


@pytest.mark.parametrize("dtype", [WIDE, NARROW])
@pytest.mark.parametrize(
    ("straight", "at"),
    [
        (slope, 0.3),
        (slope, 1e3),
        (lambda x: slope(x + 1e6), 0.3),
        (lambda x: 0.7 * (slope(x) + 1e6), 0.3),
        (lambda x: slope(x * 1.1 - 1e3), 1e3),
        (lambda x: bowl(x - 1e12), 0.0),
    ],
)
def test_rounding_is_not_taken_for_curvature(
    straight: Callable[[Tensor], Tensor], at: float, dtype: torch.dtype
) -> None:
    with pytest.raises(ConfigError, match=r"no curvature around the start point.*; give L,"):
        probed(straight, at, dtype)


def test_what_was_seen_in_place_of_a_curvature_is_told() -> None:
    with pytest.raises(
        ConfigError,
        match=r"start point: it bends by \S+e-10, and values near 7e\+05 round by 1\.6e-10; "
        r"give L, a larger mu, or step='constant' with eta",
    ):
        probed(lambda x: 0.7 * (slope(x) + 1e6), 0.3)


@pytest.mark.parametrize(
    ("f", "at", "dtype", "expected"),
    [
        (bowl, 1e6, WIDE, 2.0),
        (bowl, 1e2, NARROW, 2.0),
        (lambda x: bowl(x - 1e9), 1e9 + 1e3, WIDE, 2.0),
        (lambda x: bowl(x - 1e4), 0.0, WIDE, 2.0),
        (lambda x: bowl(x - 20), 0.0, NARROW, 2.0),
        (lambda x: bowl(x) + 1e9, 1.0, WIDE, 2.0),
        (lambda x: bowl(x) + 1e3, 1.0, NARROW, 2.0),
        (lambda x: 1e-7 * bowl(x) + slope(x), 1.0, WIDE, 2e-7),
        (lambda x: 1e-30 * bowl(x), 1.0, NARROW, 2e-30),
        (lambda x: (1 + (x - 1e5).square()).sqrt().sum(-1), 1e5, WIDE, 1.0),
    ],
)
def test_curvature_is_found_far_out_beside_large_values_and_where_it_is_tiny(
    f: Callable[[Tensor], Tensor], at: float, dtype: torch.dtype, expected: float
) -> None:
    assert float(probed(f, at, dtype).smoothness) == pytest.approx(expected, rel=0.05)


def test_values_of_fewer_digits_than_their_points_round_as_they_come() -> None:
    found = probed(lambda x: bowl(x.float() - 1).double(), 0.0)
    assert float(found.smoothness) == pytest.approx(2.0, rel=0.1)
    with pytest.raises(ConfigError, match=r"values near 1e\+03 round by 0\.00012"):
        probed(lambda x: (bowl(x.float() - 1) + 990).double(), 0.0)


def test_a_larger_mu_finds_what_rounding_hides() -> None:
    with pytest.raises(ConfigError, match="give L, a larger mu"):
        probed(lambda x: bowl(x - 1e7), 0.0)
    found = probed(lambda x: bowl(x - 1e7), 0.0, mu=10.0)
    assert float(found.smoothness) == pytest.approx(2.0, rel=0.05)


def test_a_replicate_is_probed_as_far_out_as_it_would_be_alone() -> None:
    starts = [0.5, 1e6]
    together = probed(bowl, starts).smoothness.tolist()
    assert together == [float(probed(bowl, start).smoothness) for start in starts]
    with pytest.raises(ConfigError, match=r"bends by .*, and values near 1\.5e\+06 round by"):
        probed(lambda x: bowl(x.clamp_max(1)) + slope(x), [0.5, 3e5])


def test_short_directions_are_probed_as_far_out_as_long_ones() -> None:
    block = DenseBlock(torch.full((1, 1, 1), 0.01, dtype=WIDE))
    x = torch.full((1, 1), 0.7).double()
    found = SERIAL.run(
        estimate_curvature, lambda at: Request(lambda: Answer(bowl(at) + 1e7)), x, block
    )
    assert float(found.smoothness) == pytest.approx(2.0, rel=0.01)


def test_a_function_that_ends_beside_the_start_is_said_to_do_so() -> None:
    said = "around the start point, where it is not finite; give L, or step='constant' with eta"
    with pytest.raises(ConfigError, match=said):
        probed(lambda x: bowl(x).log(), 0.0)


def test_a_given_mu_lets_a_function_of_a_small_scale_be_probed_near() -> None:
    def narrow(x: Tensor) -> Tensor:
        return (x / 1e-4).cosh().sum(-1)

    assert float(probed(narrow, 1e-4, mu=1e-8).smoothness) < 1e10
    assert float(probed(narrow, 1e-4).smoothness) > 1e11
