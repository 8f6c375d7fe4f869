"""Detect functions that return different values at the same point.

Two calls at one point show whether a function is noisy, but hardly by how much: their difference is
below a tenth of its standard deviation once in twelve times. So a function is evaluated more often
only if its first two values differ.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.errors import ObjectiveError

LOOKS = 8
"""Further evaluations of a function whose first two values differ."""
_ROUNDING = 256
"""Units in the last place by which values may differ between batches."""
_SHARE = 0.05
"""Largest allowed noise as a share of the changes of f that a step measures."""


def alike(once: Tensor, again: Tensor) -> bool:
    """Whether two calls at the same points differ by rounding only."""
    return not bool(((once - again).abs() > _rounding(once)).any())


def refuse_noise(looks: Tensor, changes: Tensor, what: str) -> None:
    """Raise an error if noise is not small compared with the changes of f to be measured.

    Args:
        looks: values of repeated calls at one point each, (replicates, calls).
        changes: how much f changes over the distance of the differences, (replicates,).
        what: what is measured, for the message.
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
