"""An evolution strategy: descent on the function smoothed by a large, shrinking radius."""

from __future__ import annotations

from zotune.methods import register
from zotune.methods.parts.comparing import answered, reserved
from zotune.methods.parts.looking import is_noisy
from zotune.methods.parts.oracle import Oracle
from zotune.methods.parts.smoothing import smoothing as smooth
from zotune.methods.parts.units import in_units
from zotune.methods.start import Stage, Start


@register("smoothing", formula="x ← x + σ Σ wᵢ yᵢ, the ranked directions of a Gaussian block")
def smoothing(start: Start) -> Stage[str]:
    """CMA-ES; for rugged and for very noisy functions."""
    return (yield from in_units(_smoothed, start))


def _smoothed(start: Start) -> Stage[str]:
    o, x, f = Oracle(start), start.x, start.value
    yield from is_noisy(o, x, f, 1)
    spend = o.left
    if o.is_noisy:
        o.answer = x, f
        spend -= reserved(o)
    end, _ = yield from smooth(o, x, 1.0, start.reach, start.rng(), spend=spend, until=1e-12)
    if o.is_noisy:
        return (yield from answered(o, start, [x, end]))
    return "the radius is 10⁻¹² of the first"
