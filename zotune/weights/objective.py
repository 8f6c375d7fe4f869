"""What is minimised over the weights of a module: the seam between models and the descent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import Module, Parameter

    from zotune.addresses import Keys

Batch = Any
"""What an objective draws for a step; nobody else looks into it."""


class WeightsObjective(ABC):
    """A loss of a module's trained parameters, seen through one mini-batch a step.

    The vector in R^d is the trained parameters, flattened and joined in the order of ``trained``; a
    parameter that is used in two places (tied) stands there once. The descent changes the module's
    parameters in place while it probes, and they are bit for bit what they were when it has.
    """

    name: str
    module: Module
    """In evaluation mode, its parameters without gradients."""
    trained: Mapping[str, Parameter]
    """Name → parameter, in the order of the vector; each parameter once."""
    device: torch.device
    dtype: torch.dtype
    """Of the trained parameters."""

    draws_batches = True
    """A step sees the loss through a mini-batch."""

    @property
    def dim(self) -> int:
        """d: how many numbers are trained."""
        return sum(parameter.numel() for parameter in self.trained.values())

    @abstractmethod
    def batch(self, keys: Keys, step: int) -> Batch:
        """The mini-batch of a step, by its address; all evaluations of the step share it."""

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """The loss of the module as it is now on a mini-batch, a float32 scalar."""

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """``loss`` (and ``accuracy`` where there is one) on held-out data, never charged."""

    def touched(self, batch: Batch) -> Mapping[str, Tensor]:
        """Rows of trained parameters that a mini-batch can see, sorted; a name not there: all.

        The loss must not depend on the other rows, so that they need no perturbation.
        """
        return {}

    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must agree on to be continued with this objective."""
        return {"name": self.name, "dim": self.dim, "dtype": str(self.dtype).removeprefix("torch.")}

    def export(self, folder: Path) -> None:
        """Write the model as it is to a folder that it can be loaded from."""
        raise NotImplementedError
