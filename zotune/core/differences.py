"""Directional differences v from function values, and their costs.

Forward: vᵢ = (f(x + mu uᵢ) − f(x)) / mu, with q + 1 evaluations a step; biased by (mu/2) uᵢᵀHuᵢ.
Central: vᵢ = (f(x + mu uᵢ) − f(x − mu uᵢ)) / 2mu, with 2q evaluations; biased by O(mu²).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zotune.errors import one_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

FORWARD, CENTRAL = "forward", "central"


@dataclass(frozen=True)
class Difference:
    """A difference scheme: its evaluations and its quotients."""

    name: str
    formula: str
    per_direction: int
    """Evaluations per direction."""
    per_step: int
    """Additional evaluations per step."""

    def evaluations(self, q: int) -> int:
        """Evaluations of one step with q directions."""
        return self.per_direction * q + self.per_step

    def affordable(self, evaluations: int) -> int:
        """The largest number of directions for so many evaluations."""
        return max(0, (evaluations - self.per_step) // self.per_direction)

    @property
    def knows_center(self) -> bool:
        """Whether f(x) itself is among the values."""
        return self.per_step == 1

    @property
    def signs(self) -> tuple[float, ...]:
        """The signs of mu at which each direction is evaluated."""
        return (1.0, -1.0)[: self.per_direction]

    def columns(self, queries: range, q: int) -> list[slice]:
        """The columns of directions ``queries`` among a step's values, one slice per sign."""
        firsts = [self.per_step + side * q for side in range(self.per_direction)]
        return [slice(first + queries.start, first + queries.stop) for first in firsts]

    def quotient(self, values: Tensor, mu: float) -> Tensor:
        """v from a step's values, (replicates, evaluations) → (replicates, q)."""
        if self.knows_center:
            center, sides = values.split_with_sizes((1, values.shape[1] - 1), dim=1)
            return (sides - center).div_(mu)
        above, below = values.chunk(2, dim=1)
        return (above - below).div_(2 * mu)


DIFFERENCES = {
    FORWARD: Difference(FORWARD, "(f(x + mu u) − f(x)) / mu", per_direction=1, per_step=1),
    CENTRAL: Difference(CENTRAL, "(f(x + mu u) − f(x − mu u)) / 2mu", per_direction=2, per_step=0),
}

_MU = {
    "float64": {FORWARD: 1e-6, CENTRAL: 1e-6},
    "float32": {FORWARD: 1e-4, CENTRAL: 3e-4},
    "float16": {FORWARD: 1e-3, CENTRAL: 1e-3},
    "bfloat16": {FORWARD: 1e-3, CENTRAL: 1e-3},
}


def get_difference(name: str) -> Difference:
    """The difference of that name."""
    return DIFFERENCES[one_of("difference", name, DIFFERENCES)]


def default_mu(dtype: torch.dtype, difference: str) -> float:
    """The mu that balances rounding and curvature errors, for directions of norm √d.

    Central differences have no first-order curvature error, and allow a larger mu in coarse dtypes.
    """
    return _MU[str(dtype).removeprefix("torch.")][difference]
