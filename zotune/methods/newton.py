"""Newton's method on Hessians from differences."""

from __future__ import annotations

from zotune.methods import register
from zotune.methods.parts.newton import newton as descend
from zotune.methods.parts.newton import whole
from zotune.methods.parts.oracle import Oracle
from zotune.methods.parts.units import in_units
from zotune.methods.start import Stage, Start


@register("newton", formula="x ← x − α |H|⁻¹ g, both from d (d + 3)/2 differences", least=whole)
def newton(start: Start) -> Stage[str]:
    """Full Hessians; for smooth functions of few coordinates."""
    return (yield from in_units(_descended, start))


def _descended(start: Start) -> Stage[str]:
    yield from descend(Oracle(start), start.x, start.value, start.reach)
    return "a step gained nothing, with larger and with smaller differences"
