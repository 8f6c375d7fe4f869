"""Functions that answer differently at the same point."""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.errors import ObjectiveError

_ROUNDING = 256
"""Last digits in which one batch may differ from another."""
_SHARE = 0.1
"""Of the changes that a step looks at, what noise may make up."""


def refuse_noise(once: Tensor, again: Tensor, changes: Tensor, what: str) -> None:
    """Refuse a function whose values at one point differ as much as what is looked for.

    Args:
        once: f at some points, (replicates,).
        again: f at the same points, by another call.
        changes: how much f changes where it is differenced, (replicates,).
        what: what is looked for.
    """
    noise = (once - again).abs()
    rounding = _ROUNDING * torch.finfo(once.dtype).eps * once.abs()
    lost = (noise > rounding) & (noise > _SHARE * changes)
    if not bool(lost.any()):
        return
    raise ObjectiveError(
        f"the function must answer the same at the same point, got values {float(noise.max()):.3g} "
        f"apart, and {what} would be noise; give a mu over which it changes by far more than that, "
        "with difference='central', or fix its random numbers"
    )
