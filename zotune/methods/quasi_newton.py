"""L-BFGS on full blocks of differences."""

from __future__ import annotations

from zotune.methods import register
from zotune.methods.parts.local import local
from zotune.methods.parts.oracle import Oracle
from zotune.methods.parts.units import in_units
from zotune.methods.start import Stage, Start


@register("quasi-newton", formula="x ← x − α H g, g from full blocks of differences")
def quasi_newton(start: Start) -> Stage[str]:
    """L-BFGS with a line search by values; for smooth functions."""
    return (yield from in_units(_descended, start))


def _descended(start: Start) -> Stage[str]:
    o = Oracle(start)
    yield from local(o, start.x, start.value, start.reach, rng=start.rng())
    if o.is_noisy:
        return "values at one point differ: the function is noisy; give method='filtering'"
    return "differences are no longer larger than rounding errors"
