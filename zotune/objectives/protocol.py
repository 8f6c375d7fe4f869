"""What is minimised: a function of a vector, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from zotune._lazy import LazyModule
from zotune.addresses import Keys
from zotune.objectives.checks import dtype_name

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from zotune.weights.objective import WeightsObjective
else:
    torch = LazyModule("torch")


AnyObjective: TypeAlias = "Objective | WeightsObjective"


POINTS_PER_CALL, BYTES_PER_CALL = 64, 2**25
"""The most that a worker evaluates in one call, where a function takes many points at once."""


class Objective:
    """A function of R^d, and what is known of it.

    A subclass gives ``values``; all else is optional. ``values`` is the loss that is looked at; a
    step evaluates ``sample``, which differs from it only where the function is stochastic.
    """

    stochastic: ClassVar[bool] = False
    """Whether a step sees the function through a mini-batch."""
    pure: ClassVar[bool] = False
    """Whether ``values`` and the like do nothing but compute. They neither keep nor change their
    points, answer in new tensors, and may be asked more often than is charged, and where points
    are not finite. They are called in torch's inference mode: no autograd inside, no tensor kept
    from one call to the next."""
    L: float | None = None
    """Lipschitz constant of the gradient."""
    gamma: float | None = None
    """Strong convexity."""
    minimum: float | None = None
    """The lowest value, f*."""
    bounds: tuple[Any, Any] | None = None
    """Lower and upper bounds of x, numbers or vectors."""
    failed = 0
    """Evaluations that have failed so far."""
    metrics: Mapping[str, Objective] = MappingProxyType({})
    """Functions of x that curves and rows show beside the loss, by name; they are not charged."""

    @property
    def points_per_call(self) -> int:
        """Points that workers evaluate in one call, however many workers there are."""
        return max(1, min(POINTS_PER_CALL, BYTES_PER_CALL // (self.dim * self.dtype.itemsize)))

    @property
    def draws_batches(self) -> bool:
        """Whether a step sees another function than the one before."""
        return self.stochastic

    def __init__(
        self,
        name: str,
        dim: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.name = name
        self.dim = dim
        self.dtype = dtype or torch.float64
        self.device = torch.device(device)

    @property
    def value_dtype(self) -> torch.dtype:
        """Losses are kept in float32 at least."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    def values(self, points: Tensor) -> Tensor:
        """f at each row of ``points``, (n, d) → (n,)."""
        raise NotImplementedError

    def sample(self, keys: Keys, step: int) -> Callable[[Tensor], Tensor]:
        """f as step ``step`` sees it, (replicates, n, d) → (replicates, n).

        A stochastic objective binds the step's mini-batch here, by the replicates' addresses.
        """
        return self._values_of_blocks

    def gradient(self, x: Tensor) -> Tensor | None:
        """∇f at each row of ``x``, for diagnostics only; None where it is not known."""
        return None

    def values_and_gradient(self, points: Tensor) -> tuple[Tensor, Tensor | None]:
        """f at a step's points (replicates, n, d), and ∇f at the first of each replicate.

        For steps that a curve records; a stochastic objective is asked for its full loss here. None
        where ∇f does not come with the values for nothing.
        """
        return self._values_of_blocks(points), None

    def start(self) -> Tensor:
        """Where a run begins unless told otherwise, (d,): at zero."""
        return torch.zeros(self.dim, dtype=self.dtype, device=self.device)

    def measured(self, x: Tensor) -> dict[str, Tensor]:
        """The metrics at each row of ``x``, (n,) each."""
        return {name: metric.values(x.clone()) for name, metric in self.metrics.items()}

    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must agree on to be continued with this objective."""
        return {"name": self.name, "dim": self.dim, "dtype": dtype_name(self.dtype)}

    def _values_of_blocks(self, points: Tensor) -> Tensor:
        return self.values(points.flatten(0, 1)).view(points.shape[:2])
