"""A stand-in for an objective that exists in workers only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from zotune.objectives import Objective


class Described(Objective):
    """The properties of a function that is evaluated elsewhere."""

    def __init__(self, of: Objective) -> None:
        super().__init__(of.name, of.dim, dtype=of.dtype)
        self.stochastic = of.stochastic  # type: ignore[misc]
        self.L, self.gamma, self.minimum, self.bounds = of.L, of.gamma, of.minimum, of.bounds
        self.cheap, self.residuals = not of.charges_looks, of.residuals
        self._start = of.start().cpu().numpy()
        self._per_call = of.points_per_call
        self._fingerprint = of.fingerprint()

    @property
    def points_per_call(self) -> int:
        """As of the function."""
        return self._per_call

    def start(self) -> Tensor:
        """As of the function."""
        return torch.from_numpy(self._start)

    def fingerprint(self) -> dict[str, Any]:
        """As of the function."""
        return self._fingerprint


def described(objective: Any) -> Described | None:
    """The description of a function of a vector; None for a model, which is built here, too."""
    return Described(objective) if isinstance(objective, Objective) else None
