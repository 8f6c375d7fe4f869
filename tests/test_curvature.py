"""Curvature from a few extra queries."""

from __future__ import annotations

import pytest
import torch

from zotune.blocks import DenseBlock
from zotune.curvature import estimate_curvature, probes_for, probing_cost


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

    found = estimate_curvature(f, x, block)
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
