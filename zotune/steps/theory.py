"""The step of the bounds."""

from __future__ import annotations

from zotune.steps import register


@register(
    "theory",
    formula="eta · (E gᵀĝ / E‖ĝ‖²) / L, with eta = 1 unless given",
    needs_smoothness=True,
    default_eta=1.0,
)
def theory(eta: float, t: int, best: float, usual: float) -> float:
    """The step that maximises the decrease guaranteed for an L-smooth function, times eta."""
    return eta * best
