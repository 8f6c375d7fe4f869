"""Two functions that need no extra, to try the bench with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zotune.bench.blackbox.counting import Vector
from zotune.bench.blackbox.problems import BlackboxProblem, plain


def load(suite: str, dims: Sequence[int]) -> Iterator[BlackboxProblem]:
    """A sphere and Rosenbrock's valley with 50 (d + 1) evaluations."""
    for dim in dims:
        for name, function in (("sphere", sphere), ("valley", valley)):
            yield BlackboxProblem(
                name=f"{name}-{dim}",
                start=np.full(dim, -1.0),
                budget=50 * (dim + 1),
                opened=plain(function),
                minimum=0.0,
            )


def sphere(x: Vector) -> float:
    """‖x‖²."""
    return float(x @ x)


def valley(x: Vector) -> float:
    """Σ 100 (xᵢ₊₁ − xᵢ²)² + (1 − xᵢ)²."""
    return float(100 * ((x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x[:-1]) ** 2).sum())
