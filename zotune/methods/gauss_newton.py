"""Least squares by Levenberg and Marquardt, for functions that return residuals."""

from __future__ import annotations

from zotune.methods import GAUSS_NEWTON, RESIDUALS, register
from zotune.methods.parts.squares import Squares
from zotune.methods.start import Stage, Start


@register(
    GAUSS_NEWTON,
    formula="x ← x − (JᵀJ + λD²)⁻¹ Jᵀr, J by d differences, then by Broyden's updates",
    outputs=RESIDUALS,
    least=lambda dim: dim + 1,
)
def gauss_newton(start: Start) -> Stage[str]:
    """For functions that return residuals: Levenberg–Marquardt steps on their derivatives."""
    return (yield from Squares(start).run())
