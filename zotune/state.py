"""What evolves in a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from zotune.budget import Ledger
from zotune.curve import Curve


@dataclass(frozen=True)
class State:
    """All that evolves; saved and loaded, it continues as if nothing had happened.

    Tensors of a pure objective's run are made in torch's inference mode: clone one to change it, or
    to differentiate by it.
    """

    x: Tensor
    """The points, (replicates, d)."""
    steps: int
    lost: int
    """How many replicates have diverged."""
    ledger: Ledger
    loss: Tensor
    """The last finite loss that was seen, (replicates,)."""
    start_loss: Tensor
    best_loss: Tensor
    best_x: Tensor
    diverged: Tensor
    """Which replicates have ended, (replicates,)."""
    inverse_smoothness: Tensor
    """1/L, (replicates, 1): given, known or estimated; NaN where nobody has asked."""
    average: Tensor
    """Weighted sum of the iterates, (replicates, d); (replicates, 0) where it is not kept."""
    average_weight: float
    curve: Curve

    def but(self, **changes: Any) -> State:
        """This state with other values; ``replace`` takes three times as long."""
        state = object.__new__(State)
        state.__dict__.update(self.__dict__, **changes)
        return state
