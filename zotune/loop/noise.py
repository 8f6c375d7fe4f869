"""Functions that answer differently at the same point.

Two calls at one point tell whether a function is noisy, and hardly how much: their difference is
below a tenth of its own standard deviation once in twelve times. So one that has shown noise is
looked at more often, and one that has not costs nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.errors import ObjectiveError

LOOKS = 8
"""Further looks at a function whose first two answers differ."""
_ROUNDING = 256
"""Last digits in which one batch may differ from another."""
_SHARE = 0.05
"""Of the changes that a step looks at, what noise may make up."""


def alike(once: Tensor, again: Tensor) -> bool:
    """Whether two calls at the same points differ in their last digits only."""
    return not bool(((once - again).abs() > _rounding(once)).any())


def refuse_noise(looks: Tensor, changes: Tensor, what: str) -> None:
    """Refuse a function whose values at one point differ as much as what is looked for.

    Args:
        looks: f at some points, by call after call, (replicates, calls).
        changes: how much f changes where it is differenced, (replicates,).
        what: what is looked for.
    """
    noise = 2**0.5 * looks.std(-1)  # the root mean square of the difference of two calls
    lost = (noise > _rounding(looks[:, 0])) & (noise > _SHARE * changes)
    if not bool(lost.any()):
        return
    raise ObjectiveError(
        f"the function must answer the same at the same point, got values {float(noise.max()):.3g} "
        f"apart, and {what} would be noise; give a mu over which it changes by far more than that, "
        "with difference='central', or fix its random numbers"
    )


def _rounding(values: Tensor) -> Tensor:
    return _ROUNDING * torch.finfo(values.dtype).eps * values.abs()
