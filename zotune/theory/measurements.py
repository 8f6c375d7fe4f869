"""Measure properties of single estimates for comparison with the paper's formulas.

The estimates are of the gradient of a linear function gᵀx, for which differences are exact. Their
mean squared error is compared with the formula, and the distance of Gram matrices of random blocks
from the identity with √(q/d). No function is minimised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import torch

from zotune.addresses import replicate_keys
from zotune.blocks import DenseBlock
from zotune.directions import DIRECTIONS
from zotune.estimators import ESTIMATORS
from zotune.theory import method

AT_ONCE = 2**21
"""Maximum number of entries of directions in memory at a time."""


@dataclass(frozen=True)
class Error:
    """The mean squared error of an estimator relative to ‖g‖², measured and by formula."""

    estimator: str
    dim: int
    q: int
    draws: int
    mse: float
    uncertainty: float
    """Standard error of the measured mean."""
    formula: float

    @property
    def agrees(self) -> bool:
        """Whether the formula is within four standard errors, or both vanish."""
        return abs(self.mse - self.formula) <= 4 * self.uncertainty + 1e-9


def mean_squared_error(
    estimator: str,
    dim: int,
    q: int,
    *,
    directions: str = "gaussian",
    draws: int = 200,
) -> Error:
    """E‖ĝ − g‖² / ‖g‖² over blocks of q directions, measured and by formula.

    >>> found = mean_squared_error("align", 20, 5, draws=400)
    >>> found.formula, found.agrees
    (0.75, True)
    """
    g = torch.linspace(-1.0, 2.0, dim, dtype=torch.float64)
    estimate = ESTIMATORS[estimator]
    errors = []
    for block in _blocks(directions, dim, q, draws):
        v = block.rows(range(q), range(dim)) @ g
        errors.append((block.combine(estimate(v, block)) - g).square().sum(-1) / (g @ g))
    found = torch.cat(errors)
    return Error(
        estimator,
        dim,
        q,
        draws,
        float(found.mean()),
        float(found.std()) / sqrt(draws),
        method(estimator, dim, directions).mse(q),
    )


@dataclass(frozen=True)
class Gram:
    """How far UᵀU/d is from the identity; ‖P_U − UUᵀ/d‖ is the same number."""

    dim: int
    q: int
    draws: int
    deviation: float
    """Mean over draws of the operator norm of UᵀU/d − I."""
    largest: float
    scale: float
    """√(q/d)."""
    typical: list[list[float]]
    """|UᵀU/d| of the first draw."""


def gram_deviation(
    dim: int, q: int = 10, *, directions: str = "gaussian", draws: int = 100
) -> Gram:
    """The operator norm of UᵀU/d − I over blocks of q directions.

    P_U − UUᵀ/d has the eigenvalues 1 − λ of I − UᵀU/d on the span of U and 0 elsewhere, so one
    number answers for the Gram matrix and for the projection.

    >>> gram_deviation(64, 8, directions="orthogonal", draws=2).deviation < 1e-12
    True
    """
    matrices = [block.gram() / dim for block in _blocks(directions, dim, q, draws)]
    scaled = torch.cat(matrices)
    eigenvalues = torch.linalg.eigvalsh(scaled)
    norms = (eigenvalues - 1).abs().amax(-1)
    return Gram(
        dim,
        q,
        draws,
        float(norms.mean()),
        float(norms.max()),
        sqrt(q / dim),
        scaled[0].abs().tolist(),
    )


def _blocks(directions: str, dim: int, q: int, draws: int) -> Iterator[DenseBlock]:
    """Blocks in batches, ``draws`` in all."""
    kind = DIRECTIONS[directions]
    most = max(1, AT_ONCE // (q * dim))
    for start in range(0, draws, most):
        keys = replicate_keys("measurements", 0, range(start, min(start + most, draws)))
        rows = torch.empty(len(keys), q, dim, dtype=torch.float64)
        kind.sampler(dim, keys, torch.device("cpu")).fill(rows, 0, range(q), range(dim))
        yield DenseBlock(rows, orthogonal=kind.orthogonal)


def errors_over(
    dims: Sequence[int], block_sizes: Sequence[int], estimators: Sequence[str] = ("avg", "align")
) -> list[Error]:
    """Errors of all estimators over d and q ≤ d; fewer draws where blocks are large."""
    return [
        mean_squared_error(name, d, q, draws=max(20, min(400, 30 * AT_ONCE // (q * d) // 10)))
        for name in estimators
        for d in dims
        for q in block_sizes
        if q <= d
    ]
