"""First measurements of a deterministic function: slopes, curvature and ruggedness at the start.

If the budget covers many full blocks, the whole diagonal of the Hessian is measured. Otherwise a
few coordinates show whether that is worth d evaluations.
"""

from __future__ import annotations

import numpy as np

from zotune.methods.parts.gradients import Measured, central, forward, other_side, telling
from zotune.methods.parts.local import COARSE, FRUGAL, sized
from zotune.methods.parts.noise import finds_rounding
from zotune.methods.parts.oracle import Oracle, Stage, Vector
from zotune.methods.parts.ruggedness import Rough, ruggedness

COORDINATES, FEWER, FEWEST = 10, 5, 2
"""Number of coordinates that are measured: normally; for a small budget; and the least, below which
none is measured."""
GLANCE = 0.08
"""Share of a small budget that these may cost, at three evaluations each."""
VARIED = 10.0
"""If their curvatures differ by this factor, all curvatures are measured."""
WORTH = 8
"""Number of full blocks that must be left for that."""

Seen = tuple[Measured | None, Rough | None]
"""The measurements, and how rugged f is; None if not measured."""


def look(o: Oracle, x: Vector, f: float, reach: Vector, rng: np.random.Generator) -> Stage[Seen]:
    """A whole block, and ten coordinates at a large distance; less if the budget is small."""
    h = 1e-4 * sized(x, reach)
    if o.left < FRUGAL * (o.dim + 1):
        return (yield from glance(o, x, f, reach, h, rng))
    m = yield from telling(o, x, f, h, 1e-2 * reach)
    if o.is_single and (yield from finds_rounding(o, x, f, sized(x, reach), rng)):
        m = yield from central(o, x, f, COARSE * reach)
    at = rng.permutation(o.dim)[:COORDINATES]
    return m, (yield from ruggedness(o, x, f, m, reach, at))


def glance(
    o: Oracle, x: Vector, f: float, reach: Vector, h: Vector, rng: np.random.Generator
) -> Stage[Seen]:
    """One-sided differences, and a few coordinates on both sides and at a large distance."""
    few = min(FEWER, o.dim, int(GLANCE * o.left / 3))
    if few < FEWEST:
        return None, None
    m = yield from forward(o, x, f, h, np.ones_like(x))
    if o.is_single and (yield from finds_rounding(o, x, f, sized(x, reach), rng)):
        h = COARSE * reach
        m = yield from forward(o, x, f, h, np.ones_like(x))
    at = rng.permutation(o.dim)[:few]
    yield from other_side(o, x, f, h, m, at)
    rough = yield from ruggedness(o, x, f, m, reach, at)
    seen = np.abs(m.diagonal[at])
    is_varied = bool(np.isnan(seen).any() or seen.max() > VARIED * seen.min())
    if is_varied and not rough.is_rugged and o.left > WORTH * o.dim:
        yield from other_side(o, x, f, h, m, np.setdiff1d(np.arange(o.dim), at))
        m = yield from telling(o, x, f, h, 1e-2 * reach, m)
    else:
        m.diagonal[:] = np.nan
    return m, rough


def is_noisy(o: Oracle, x: Vector, f: float, times: int) -> Stage[bool]:
    """Whether repeated values at x differ from the first one; the oracle stores the result."""
    again = yield from o.values(np.stack([x] * times), anew=True)
    again = again[np.isfinite(again)]
    o.is_noisy = bool(len(again) and (again != f).any())
    return o.is_noisy
