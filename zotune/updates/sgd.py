"""Plain descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zotune.updates import register

if TYPE_CHECKING:
    from torch import Tensor


@register("sgd", formula="x ← x − η ĝ", linear=True)
def sgd(g: Tensor, slots: Mapping[str, Tensor], eta: float, t: int) -> Tensor:
    """Plain descent along the estimate; what the paper's theory is about."""
    return eta * g
