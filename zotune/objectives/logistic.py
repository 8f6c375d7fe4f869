"""The convex logistic loss of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zotune._lazy import LazyModule
from zotune.addresses import instance_generator
from zotune.objectives import Objective, parse_dtype, positive_int, register

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")

NEWTON_STEPS = 50
"""Maximum number of Newton steps."""


class Comparator(NamedTuple):
    """A point to compare with where no minimiser exists, and its loss."""

    point: Tensor
    value: float


@register("logistic", formula="(1/m) Σ log(1 + exp(−yᵢ aᵢᵀx))")
class Logistic(Objective):
    """Convex: the empirical logistic loss on Gaussian data, labelled by a linear rule.

    aᵢ and w are standard normal, yᵢ = sign(aᵢᵀw). The data are linearly separable by w, so the
    infimum is 0, approached along t·w for t → ∞ and not attained. ``minimum`` is that infimum. A
    bound needs a finite point instead: for any z, with x_0 the start and K directions of ``align``
    at the theory step,

        E f(x_T) ≤ f(z) + (d/2K) (L ‖x_0 − z‖² + 2 (f(x_0) − f*)),

    and ``comparator`` gives the z that makes the right side small. L = λ_max(AᵀA/m)/4 is a global
    Lipschitz constant of the gradient. The paper gives no start point; the start is 0.

    Args:
        dim: d.
        samples: m.
        seed: fixes the data, which all replicates share.
        dtype: float64 or float32.
        device: where the points live.

    >>> import torch
    >>> loss = Logistic(dim=5, samples=20)
    >>> loss.values(torch.zeros(1, 5, dtype=torch.float64))
    tensor([0.6931], dtype=torch.float64)
    """

    pure = True

    def __init__(
        self,
        dim: int = 1000,
        samples: int = 1000,
        seed: int = 0,
        dtype: str = "float64",
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(
            "logistic", positive_int("problem.dim", dim), dtype=parse_dtype(dtype), device=device
        )
        self._seed, self._samples = seed, positive_int("problem.samples", samples)
        rows = signed_rows("logistic", seed, samples, dim)
        self.L = largest_curvature(rows)
        self.minimum = 0.0
        self._rows = rows.to(self.device, self.dtype)

    def values(self, points: Tensor) -> Tensor:
        """The mean over samples of log(1 + exp(−yᵢ aᵢᵀx))."""
        return mean_softplus(points @ self._rows.mT)

    def gradient(self, x: Tensor) -> Tensor:
        """−(1/m) Σ yᵢ aᵢ / (1 + exp(yᵢ aᵢᵀx))."""
        return (x @ self._rows.mT).sigmoid_() @ self._rows / self._samples

    def comparator(self, penalty: float) -> Comparator:
        """The z that minimises f(z) + (penalty/2) ‖z‖², computed in float64.

        With penalty = d L / K it makes the bound above as small as it gets.
        """
        rows = self._rows.double()
        point = ridge_minimizer(rows, penalty)
        return Comparator(point.to(self.dtype), float(mean_softplus(rows @ point)))

    def fingerprint(self) -> dict[str, Any]:
        """The instance as well as the shape."""
        return super().fingerprint() | {"seed": self._seed, "samples": self._samples}


def signed_rows(name: str, seed: int, samples: int, dim: int) -> Tensor:
    """−yᵢ aᵢ for each sample, in float64: all that the loss needs of the data."""
    rng = instance_generator(name, seed)
    features = torch.from_numpy(rng.standard_normal((samples, dim)))
    rule = torch.from_numpy(rng.standard_normal(dim))
    return torch.where(features @ rule >= 0, -1.0, 1.0)[:, None] * features


def largest_curvature(rows: Tensor) -> float:
    """λ_max(AᵀA/m)/4, the largest curvature of the mean loss anywhere; signs do not matter."""
    samples, dim = rows.shape
    gram = rows.mT @ rows if dim <= samples else rows @ rows.mT
    return float(torch.linalg.eigvalsh(gram)[-1]) / (4 * samples)


def mean_softplus(margins: Tensor) -> Tensor:
    """The mean of log(1 + exp z) along the last dimension, exact for any z; overwrites z."""
    return torch.logaddexp(margins, margins.new_zeros(()), out=margins).mean(-1)


def ridge_minimizer(rows: Tensor, rho: float) -> Tensor:
    """The x that minimises mean log(1 + exp(rowsᵀx)) + (rho/2) ‖x‖², by Newton's method.

    Hessians need not be exact, and are summed in float32 if rho is large enough; gradients are in
    float64 and determine when to stop.
    """
    samples, dim = rows.shape
    short = rows.float() if rho > 1e-5 * float(rows.square().mean()) else rows
    x, margins = rows.new_zeros(dim), rows.new_zeros(samples)
    for _ in range(NEWTON_STEPS):
        s = margins.sigmoid()
        gradient = s @ rows / samples + rho * x
        if float(gradient.norm()) <= 1e-7 * rho**0.5:
            break
        hessian = (short * (s * (1 - s) / samples).to(short.dtype)[:, None]).mT @ short
        hessian.diagonal().add_(rho)
        factor = torch.linalg.cholesky(hessian)
        step = -torch.cholesky_solve(gradient.to(short.dtype)[:, None], factor)[:, 0].double()
        along = rows @ step
        length = _best_length(margins, along, rho * float(x @ step), rho * float(step @ step))
        x, margins = x + length * step, margins + length * along
    return x


def _best_length(margins: Tensor, along: Tensor, slope: float, bend: float) -> float:
    """The minimum of the loss along a Newton step, by bisection of its slope on [0, 8]."""
    low, high = 0.0, 8.0
    for _ in range(30):
        middle = (low + high) / 2
        rising = torch.sigmoid(margins + middle * along) @ along / len(margins)
        low, high = (low, middle) if rising + slope + middle * bend > 0 else (middle, high)
    return (low + high) / 2
