"""An objective that lives in workers alone, as the run knows it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from zotune.objectives import Objective


class Described(Objective):
    """What is known of a function that is evaluated elsewhere."""

    def __init__(self, of: Objective) -> None:
        super().__init__(of.name, of.dim, dtype=of.dtype)
        self.stochastic = of.stochastic  # type: ignore[misc]
        self.L, self.gamma, self.minimum, self.bounds = of.L, of.gamma, of.minimum, of.bounds
        self._start = of.start().cpu().numpy()
        self._per_call = of.points_per_call
        self._fingerprint = of.fingerprint()

    @property
    def points_per_call(self) -> int:
        """As the function says."""
        return self._per_call

    def start(self) -> Tensor:
        """As the function says."""
        return torch.from_numpy(self._start)

    def fingerprint(self) -> dict[str, Any]:
        """As the function says."""
        return self._fingerprint


def described(objective: Any) -> Described | None:
    """The description of a function of a vector; None of a module's weights, which must be here."""
    return Described(objective) if isinstance(objective, Objective) else None
