"""A constant step."""

from __future__ import annotations

from zotune.steps import register


@register("constant", formula="eta")
def constant(eta: float, t: int, best: float, usual: float) -> float:
    """The same at every step; rescaled as the theory's where the last block is smaller."""
    return eta * (best / usual)
