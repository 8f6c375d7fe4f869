"""``Objective``, the base class of functions to minimise."""

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
"""Maximum number of points and of bytes per call of a batched function in a worker."""


class Objective:
    """A function on R^d, with known properties.

    A subclass defines ``values``; everything else is optional. ``values`` is the loss of curves and
    reports; steps evaluate ``sample``, which differs from it only for stochastic functions.
    """

    stochastic: ClassVar[bool] = False
    """Whether steps evaluate the function on mini-batches."""
    pure: ClassVar[bool] = False
    """Whether ``values`` and the other methods have no side effects. They must not keep or change
    their points, must return new tensors, and may be called more often than is charged, also with
    points that are not finite. They are called in torch's inference mode: no autograd inside, and
    no tensor kept from one call to the next."""
    cheap: bool = False
    """Whether curves, reports and checks may evaluate the loss beside the budget, as they do for
    pure and for stochastic objectives. Otherwise every call of the function is charged."""
    L: float | None = None
    """Lipschitz constant of the gradient."""
    gamma: float | None = None
    """Strong convexity."""
    minimum: float | None = None
    """The minimum f*."""
    bounds: Any = None
    """Lower and upper bounds of x, numbers or vectors, or SciPy's ``Bounds``."""
    residuals: int | bool = False
    """Number of residuals of a function whose value is Σ r²; True: known from its first call;
    False: the function returns one number."""
    failed = 0
    """Number of failed evaluations so far."""
    on_calls: Callable[[int], None] | None = None
    """Called with the number of points before a person's function is called for them."""
    metrics: Mapping[str, Objective] = MappingProxyType({})
    """Further functions of x for curves and rows, by name; not charged."""

    @property
    def points_per_call(self) -> int:
        """Number of points that a worker evaluates in one call; independent of the workers."""
        return max(1, min(POINTS_PER_CALL, BYTES_PER_CALL // (self.dim * self.dtype.itemsize)))

    @property
    def draws_batches(self) -> bool:
        """Whether each step has another mini-batch."""
        return self.stochastic

    @property
    def charges_looks(self) -> bool:
        """Whether looking at the loss is charged like every other evaluation."""
        return not (self.cheap or self.pure or self.stochastic)

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
        """The dtype of losses, at least float32."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    def values(self, points: Tensor) -> Tensor:
        """f at each row of ``points``, (n, d) → (n,)."""
        raise NotImplementedError

    def outputs(self, points: Tensor) -> Tensor:
        """The residuals at each row of ``points``, (n, d) → (n, m), inf in failed rows.

        Only if ``residuals`` are declared; ``values`` is then their ``merit``.
        """
        raise NotImplementedError

    def sample(self, keys: Keys, step: int) -> Callable[[Tensor], Tensor]:
        """The function that step ``step`` evaluates, (replicates, n, d) → (replicates, n).

        A stochastic objective draws the step's mini-batch here, by the replicates' addresses.
        """
        return self._values_of_blocks

    def gradient(self, x: Tensor) -> Tensor | None:
        """∇f at each row of ``x``, for diagnostics only; None if it is not known."""
        return None

    def values_and_gradient(self, points: Tensor) -> tuple[Tensor, Tensor | None]:
        """f at a step's points (replicates, n, d), and ∇f at the first of each replicate.

        For steps that a curve records; a stochastic objective uses its full loss here. The gradient
        is None if it cannot be computed with the values at no extra cost.
        """
        return self._values_of_blocks(points), None

    def start(self) -> Tensor:
        """The default start of a run, (d,): zero."""
        return torch.zeros(self.dim, dtype=self.dtype, device=self.device)

    def measured(self, x: Tensor) -> dict[str, Tensor]:
        """The metrics at each row of ``x``, (n,) each."""
        return {name: metric.values(x.clone()) for name, metric in self.metrics.items()}

    def fingerprint(self) -> dict[str, Any]:
        """Facts that must match to resume a checkpoint with this objective."""
        return {"name": self.name, "dim": self.dim, "dtype": dtype_name(self.dtype)}

    def _values_of_blocks(self, points: Tensor) -> Tensor:
        return self.values(points.flatten(0, 1)).view(points.shape[:2])
