"""``WeightsObjective``: the interface between models and the descent."""

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
"""A mini-batch; its type is private to the objective."""


class WeightsObjective(ABC):
    """A loss of a module's trained parameters, evaluated on one mini-batch per step.

    The vector in R^d consists of the trained parameters, flattened and concatenated in the order of
    ``trained``; a parameter used in two places (tied) appears once. Evaluations perturb the
    module's parameters temporarily and restore them bit for bit.
    """

    name: str
    module: Module
    """The module, in evaluation mode, with parameters that do not require gradients."""
    trained: Mapping[str, Parameter]
    """Name → parameter, in the order of the vector, each parameter once."""
    device: torch.device
    dtype: torch.dtype
    """The dtype of the trained parameters."""

    draws_batches = True
    """Whether each step evaluates the loss on a mini-batch."""

    @property
    def evaluations_to_validate(self) -> int:
        """What ``validate`` costs in evaluations of ``loss``: its rows over those of a batch."""
        return 1

    @property
    def dim(self) -> int:
        """d, the number of trained parameters."""
        return sum(parameter.numel() for parameter in self.trained.values())

    @abstractmethod
    def batch(self, keys: Keys, step: int) -> Batch:
        """The mini-batch of a step, by its address; all evaluations of the step share it."""

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """The loss of the module with its current weights on a mini-batch, a float32 scalar."""

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """``loss`` (and ``accuracy``, if there is one) on validation data, never charged."""

    def touched(self, batch: Batch) -> Mapping[str, Tensor]:
        """Sorted rows of trained parameters that a mini-batch uses; all rows of missing names.

        The loss must not depend on the other rows; they are not perturbed.
        """
        return {}

    def fingerprint(self) -> dict[str, Any]:
        """Facts that must match to resume a checkpoint with this objective."""
        return {"name": self.name, "dim": self.dim, "dtype": str(self.dtype).removeprefix("torch.")}

    def export(self, folder: Path) -> None:
        """Write the model with its current weights to a folder from which it can be loaded."""
        raise NotImplementedError
