"""The strongly convex quadratic of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zotune._lazy import LazyModule
from zotune.addresses import instance_generator
from zotune.errors import ConfigError
from zotune.objectives import Objective, parse_dtype, positive_int, register

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")


@register("quadratic", formula="½ xᵀAx + bᵀx")
class Quadratic(Objective):
    """Strongly convex: A = MᵀM + εI with standard normal M and b, or of a given condition.

    The paper gives no start point. A start at 0 shows hardly any progress, because the minimiser
    lies along the smallest eigenvalues of A; the start is therefore standard normal, a part of the
    instance.

    Args:
        dim: d.
        seed: fixes the instance: M, b and the start point, which all replicates share.
        condition: L / gamma. None takes the paper's A, whose condition is in the millions at
            d = 1000; a number takes eigenvalues from 1 to it, evenly spaced on a logarithmic
            scale, in random axes.
        epsilon: ε of the paper's A.
        dtype: float64 or float32.
        device: where the points live.
    """

    pure = True

    def __init__(
        self,
        dim: int = 1000,
        seed: int = 0,
        condition: float | None = None,
        epsilon: float = 1e-3,
        dtype: str = "float64",
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(
            "quadratic", positive_int("problem.dim", dim), dtype=parse_dtype(dtype), device=device
        )
        rng = instance_generator("quadratic", seed)
        self._seed, self._condition, self._epsilon = seed, condition, epsilon
        matrix = torch.from_numpy(rng.standard_normal((dim, dim)))
        b = torch.from_numpy(rng.standard_normal(dim))
        start = torch.from_numpy(rng.standard_normal(dim))
        a = _gram(matrix, epsilon) if condition is None else _conditioned(matrix, condition)
        a = (a + a.mT) / 2  # the product is symmetric only up to rounding
        eigenvalues = torch.linalg.eigvalsh(a)
        solution = torch.cholesky_solve(-b[:, None], torch.linalg.cholesky(a))[:, 0]
        self.L, self.gamma = float(eigenvalues[-1]), float(eigenvalues[0])
        self.minimum = float(b @ solution) / 2
        self.a, self.b, self.optimum, self._start = (
            part.to(self.device, self.dtype) for part in (a, b, solution, start)
        )

    def values(self, points: Tensor) -> Tensor:
        """½ xᵀAx + bᵀx = xᵀ(½Ax + b)."""
        return self._half_gradient(points).mul_(points).sum(-1)

    def values_and_gradient(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Ax + b = 2(½Ax + b) − b, from the product that the values need."""
        half_gradient = self._half_gradient(points.flatten(0, 1)).view_as(points)
        gradient = torch.sub(2 * half_gradient[:, 0], self.b)
        return half_gradient.mul_(points).sum(-1), gradient

    def gradient(self, x: Tensor) -> Tensor:
        """Ax + b."""
        return torch.addmm(self.b, x, self.a)

    def _half_gradient(self, points: Tensor) -> Tensor:
        """½Ax + b, using A = Aᵀ, which is faster for few points."""
        return torch.addmm(self.b, points, self.a.mT, alpha=0.5)

    def start(self) -> Tensor:
        """Standard normal, fixed by the seed."""
        return self._start

    def fingerprint(self) -> dict[str, Any]:
        """The instance as well as the shape."""
        instance = {"seed": self._seed, "condition": self._condition, "epsilon": self._epsilon}
        return super().fingerprint() | instance


def _gram(matrix: Tensor, epsilon: float) -> Tensor:
    return matrix.mT @ matrix + epsilon * torch.eye(len(matrix), dtype=matrix.dtype)


def _conditioned(matrix: Tensor, condition: float) -> Tensor:
    if not condition >= 1:
        raise ConfigError(f"problem.condition must be at least 1, got {condition!r}")
    axes: Tensor = torch.linalg.qr(matrix).Q
    eigenvalues = torch.from_numpy(np.geomspace(1.0, condition, len(matrix)))
    return axes * eigenvalues @ axes.mT
