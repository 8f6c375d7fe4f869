"""The sign of the estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zotune.updates import register

if TYPE_CHECKING:
    from torch import Tensor


@register("sign", formula="x ← x − η sign(ĝ)")
def sign(g: Tensor, slots: Mapping[str, Tensor], eta: float, t: int) -> Tensor:
    """Every coordinate by η, downhill by the estimate's sign; no vector is kept.

    η is a length, not a factor of 1/L: there is no theory step. ZO-signSGD, Liu et al. 2019.
    """
    return g.sign().mul_(eta)
