"""The stochastic convex logistic loss of the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from zotune._lazy import LazyModule
from zotune.addresses import Keys, extend, mix
from zotune.errors import ConfigError
from zotune.objectives import Objective, parse_dtype, positive_int, register
from zotune.objectives.logistic import (
    largest_curvature,
    mean_softplus,
    ridge_minimizer,
    signed_rows,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")


@register("stochastic-logistic", formula="E log(1 + exp(−y aᵀx)) + (ρ/2) ‖x‖²")
class StochasticLogistic(Objective):
    """Strongly convex, seen through mini-batches: the logistic loss with a quadratic penalty.

    The data are those of ``logistic``; the expectation is over the m samples. Each step of each
    replicate has one mini-batch, drawn with replacement by the step's address and shared by all of
    the step's evaluations. Losses in curves and reports are over all samples.

    ``L`` is that of the full loss, λ_max(AᵀA/m)/4 + ρ. A mini-batch has more curvature; the
    stochastic theorems need ``batch_L`` with E‖∇F(x) − ∇F(x*)‖² ≤ 2 batch_L (f(x) − f*): the mean
    of L and the largest L of a single sample, weighted by 1 − 1/batch and 1/batch. ``noise`` is
    their σ, the root of E‖∇F(x*)‖².

    Args:
        dim: d.
        samples: m.
        batch: samples in a mini-batch.
        rho: ρ, the penalty and the strong convexity.
        seed: fixes the data, which all replicates share.
        dtype: float64 or float32.
        device: where the points live.

    >>> loss = StochasticLogistic(dim=5, samples=20, batch=4)
    >>> loss.gamma, loss.L < loss.batch_L
    (0.001, True)
    """

    stochastic = True
    pure = True

    def __init__(
        self,
        dim: int = 1000,
        samples: int = 5000,
        batch: int = 64,
        rho: float = 1e-3,
        seed: int = 0,
        dtype: str = "float64",
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(
            "stochastic-logistic",
            positive_int("problem.dim", dim),
            dtype=parse_dtype(dtype),
            device=device,
        )
        self._samples = positive_int("problem.samples", samples)
        self._batch = positive_int("problem.batch", batch)
        self._seed, self._rho = seed, _positive_penalty(rho)
        self._lanes = mix(np.arange(1, batch + 1, dtype=np.uint64))
        rows = signed_rows("stochastic-logistic", seed, samples, dim)
        self._describe(rows)
        self._rows = rows.to(self.device, self.dtype)

    def _describe(self, rows: Tensor) -> None:
        """Smoothness, the minimiser and the noise there, in float64."""
        rho, batch = self._rho, self._batch
        self.gamma, self.L = rho, largest_curvature(rows) + rho
        sharpest = float(rows.square().sum(-1).max()) / 4 + rho
        self.batch_L = self.L + (sharpest - self.L) / batch
        x = ridge_minimizer(rows, rho)
        margins = rows @ x
        gradients = margins.sigmoid()[:, None] * rows + rho * x
        self.noise = float(gradients.square().sum(-1).mean() / batch) ** 0.5
        self.minimum = float(mean_softplus(margins) + rho / 2 * x @ x)
        self.optimum = x.to(self.device, self.dtype)

    def values(self, points: Tensor) -> Tensor:
        """The penalised mean over all samples."""
        return mean_softplus(points @ self._rows.mT) + self._penalty(points)

    def values_and_gradient(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Values and gradient over all samples, which share the margins."""
        margins = points @ self._rows.mT
        gradient = self._gradient(points[:, 0], margins[:, 0])
        return mean_softplus(margins) + self._penalty(points), gradient

    def sample(self, keys: Keys, step: int) -> Callable[[Tensor], Tensor]:
        """The penalised mean over the mini-batch of each replicate at this step."""
        index = self.batch_indices(keys, step)
        rows = self._rows.index_select(0, index.flatten()).view(*index.shape, self.dim)

        def values(points: Tensor) -> Tensor:
            return mean_softplus(torch.bmm(points, rows.mT)) + self._penalty(points)

        return values

    def batch_indices(self, keys: Keys, step: int) -> Tensor:
        """The indices of each replicate's samples at a step, (replicates, batch)."""
        drawn = mix(extend(keys, step)[:, None] + self._lanes) % np.uint64(self._samples)
        return torch.from_numpy(drawn.astype(np.int64)).to(self.device)

    def gradient(self, x: Tensor) -> Tensor:
        """∇f over all samples."""
        return self._gradient(x, x @ self._rows.mT)

    def fingerprint(self) -> dict[str, Any]:
        """The instance as well as the shape."""
        instance = {"samples": self._samples, "batch": self._batch, "rho": self._rho}
        return super().fingerprint() | {"seed": self._seed} | instance

    def _gradient(self, x: Tensor, margins: Tensor) -> Tensor:
        mean = margins.sigmoid() @ self._rows / self._samples
        return mean.add_(x, alpha=self._rho)

    def _penalty(self, points: Tensor) -> Tensor:
        square: Tensor = torch.linalg.vector_norm(points, dim=-1).square_()
        return square.mul_(self._rho / 2)


def _positive_penalty(rho: object) -> float:
    if not isinstance(rho, int | float) or not 0 < rho < float("inf"):
        raise ConfigError(
            f"problem.rho must be a positive number, got {rho!r}; problem 'logistic' has no penalty"
        )
    return float(rho)
