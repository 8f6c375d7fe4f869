"""The non-convex Rosenbrock function of the paper."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zotune._lazy import LazyModule
from zotune.addresses import instance_generator
from zotune.errors import ConfigError, one_of
from zotune.objectives import Objective, parse_dtype, positive_int, register

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")

Vector = npt.NDArray[np.float64]

HALF_NORMAL, ZERO = "half-normal", "zero"
STARTS = (HALF_NORMAL, ZERO)

CACHED = 2**18
"""Number of values processed at a time, so that they stay in the cache."""
LARGE, MARGIN = 20_000, 64
"""Rows of a large matrix, and the margin around rows that can attain its largest eigenvalue."""


@register("rosenbrock", formula="Σ 100 (xᵢ₊₁ − xᵢ²)² + (1 − xᵢ)²")
class Rosenbrock(Objective):
    """Non-convex: a curved valley; the sum is over i = 1 … d − 1; the minimum 0 is at all ones.

    Its curvature is unbounded, so there is no global L. ``L`` is the largest absolute eigenvalue of
    the Hessian at the start, computed exactly: valid for the first step, and later only as long as
    the curvature is not larger than at the start.

    Args:
        dim: d, at least 2.
        seed: fixes the start point, which all replicates share.
        start: half-normal for ½·N(0, I), fixed by the seed, or zero. The paper gives none.
        dtype: float64 or float32.
        device: where the points live.

    >>> import torch
    >>> Rosenbrock(dim=3, start="zero").L
    202.0
    >>> Rosenbrock(dim=3).values(torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]))
    tensor([0., 2.])
    """

    pure = True

    def __init__(
        self,
        dim: int = 1000,
        seed: int = 0,
        start: str = HALF_NORMAL,
        dtype: str = "float64",
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(
            "rosenbrock", positive_int("problem.dim", dim), dtype=parse_dtype(dtype), device=device
        )
        if dim < 2:
            raise ConfigError(f"problem.dim must be at least 2 for rosenbrock, got {dim}")
        self._seed, self._from = seed, one_of("problem.start", start, STARTS)
        scale = 0.5 if start == HALF_NORMAL else 0.0
        x0 = scale * instance_generator("rosenbrock", seed).standard_normal(dim)
        self.minimum, self._drawn = 0.0, x0
        self._start = torch.from_numpy(x0).to(self.device, self.dtype)
        self.optimum = torch.ones_like(self._start)

    @cached_property
    def L(self) -> float:  # type: ignore[override]
        """Computed on first access: takes a second for a million coordinates."""
        diagonal, beside = hessian_at(self._drawn)
        return max(largest_eigenvalue(diagonal, beside), largest_eigenvalue(-diagonal, beside))

    def values(self, points: Tensor) -> Tensor:
        """100 Σ (xᵢ₊₁ − xᵢ²)² + Σ (1 − xᵢ)², in parts whose temporary stays in the cache."""
        n, rows = len(points), max(1, CACHED // self.dim)
        if n <= rows:
            return _values(points)
        return torch.cat([_values(points[at : at + rows]) for at in range(0, n, rows)])

    def gradient(self, x: Tensor) -> Tensor:
        """−400 xᵢ (xᵢ₊₁ − xᵢ²) − 2 (1 − xᵢ) from the term it begins, 200 (xᵢ − xᵢ₋₁²) beside."""
        here = x[:, :-1]
        off = x[:, 1:] - here.square()
        gradient = torch.zeros_like(x)
        gradient[:, :-1] = -400 * here * off - 2 * (1 - here)
        gradient[:, 1:] += 200 * off
        return gradient

    def start(self) -> Tensor:
        """Half of a standard normal point fixed by the seed, or zero."""
        return self._start

    def fingerprint(self) -> dict[str, Any]:
        """The instance as well as the shape."""
        return super().fingerprint() | {"seed": self._seed, "start": self._from}


def _values(points: Tensor) -> Tensor:
    """f at each row, with one temporary."""
    here, beyond = points[:, :-1], points[:, 1:]
    off = torch.addcmul(beyond, here, here, value=-1)
    values = off.square_().sum(-1).mul_(100)
    torch.sub(here, 1, out=off)
    return values.add_(off.square_().sum(-1))


def hessian_at(x: Vector) -> tuple[Vector, Vector]:
    """The tridiagonal Hessian: its diagonal, and the entries beside the diagonal."""
    diagonal = np.zeros_like(x)
    diagonal[:-1] += 1200 * x[:-1] ** 2 - 400 * x[1:] + 2
    diagonal[1:] += 200
    return diagonal, -400 * x[:-1]


def largest_eigenvalue(diagonal: Vector, beside: Vector) -> float:
    """λ_max of a symmetric tridiagonal matrix H, by narrowing an interval to machine precision.

    s > λ_max if and only if sI − H has a Cholesky factor, that is, if all pivots
    pᵢ = s − aᵢ − bᵢ₋₁² / pᵢ₋₁ are positive. Many s are tried at a time. For a large matrix, only
    rows around those that can attain λ_max are used first, and the result is checked on all rows.
    """
    if len(diagonal) > LARGE:
        found = _narrowed(*_around_the_top(diagonal, beside))
        if _factors(found + 8 * np.spacing(abs(found)), diagonal, beside):
            return found
    return _narrowed(diagonal, beside)


def _narrowed(diagonal: Vector, beside: Vector) -> float:
    low, high = float(diagonal.max()), float((diagonal + _reach(beside)).max())
    while high - low > 4 * np.spacing(max(abs(low), abs(high))):
        shifts = np.linspace(low, high, 256)
        above = _has_factor(shifts, diagonal, beside)
        above[-1] = True
        first = int(above.argmax())
        low, high = float(shifts[max(first - 1, 0)]), float(shifts[first])
    return high


def _reach(beside: Vector) -> Vector:
    """The radius of Gershgorin's disc of each row."""
    radius: Vector = np.abs(np.pad(beside, (1, 0))) + np.abs(np.pad(beside, (0, 1)))
    return radius


def _around_the_top(diagonal: Vector, beside: Vector) -> tuple[Vector, Vector]:
    """Blocks of rows around those whose disc reaches the largest eigenvalue of a 2 × 2 block."""
    mean, half = (diagonal[:-1] + diagonal[1:]) / 2, (diagonal[:-1] - diagonal[1:]) / 2
    low = (mean + np.hypot(half, beside)).max()
    top = np.flatnonzero(diagonal + _reach(beside) >= low)
    kept = np.unique(top[:, None] + np.arange(-MARGIN, MARGIN + 1))
    kept = kept[(kept >= 0) & (kept < len(diagonal))]
    return diagonal[kept], np.where(np.diff(kept) == 1, beside[kept[:-1]], 0.0)


def _factors(shift: float, diagonal: Vector, beside: Vector) -> bool:
    """Whether all pivots of sI − H are positive, for one shift s."""
    pivot = shift - float(diagonal[0])
    for a, square in zip(diagonal[1:].tolist(), (beside**2).tolist(), strict=True):
        if not pivot > 0:
            return False
        pivot = shift - a - square / pivot
    return pivot > 0


def _has_factor(shifts: Vector, diagonal: Vector, beside: Vector) -> npt.NDArray[np.bool_]:
    """Whether all pivots of sI − H are positive, for each shift s."""
    pivots = shifts - diagonal[0]
    lowest = pivots.copy()
    with np.errstate(all="ignore"):
        for a, square in zip(diagonal[1:].tolist(), (beside**2).tolist(), strict=True):
            np.divide(-square, pivots, out=pivots)
            pivots += shifts
            pivots -= a
            np.minimum(lowest, pivots, out=lowest)
    factored: npt.NDArray[np.bool_] = lowest > 0
    return factored
