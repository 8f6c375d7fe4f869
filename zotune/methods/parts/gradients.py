"""Full blocks of coordinate differences: ∇f and the diagonal of the Hessian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zotune.methods.parts.oracle import Indices, Oracle, Stage, Vector

SURE = 20.0
"""Second differences are used if f changes by this many times its rounding error."""


@dataclass
class Measured:
    """The measurements of a full block at a point."""

    g: Vector
    diagonal: Vector
    """∂²f/∂xᵢ² if measured by central differences above the rounding error; else NaN."""
    probe: tuple[Vector, float] | None = None
    """The point whose value differed most from the centre's, to be re-evaluated to detect noise."""


def sides(o: Oracle, x: Vector, h: Vector, toward: Vector) -> Vector:
    """Signed steps that stay inside the box, on the preferred side if there is room."""
    sign = np.where(toward < 0, -1.0, 1.0)
    step = sign * h
    out = (x + step > o.high) | (x + step < o.low)
    step = np.where(out, -step, step)
    return o.inside(x + step) - x  # shortened if the box is narrower than h


def forward(o: Oracle, x: Vector, f: float, h: Vector, toward: Vector) -> Stage[Measured]:
    """d evaluations: gᵢ = (f(x + sᵢeᵢ) − f)/sᵢ; if one side fails, the other one is evaluated."""
    step = sides(o, x, h, toward)
    step = np.where(step == 0, 1e-300, step)
    values = yield from o.values(x + np.diag(step))
    bad = ~np.isfinite(values)
    if bad.any():
        again = o.inside(x - 0.1 * np.diag(step))[bad]
        step[bad] = np.diagonal(o.inside(x - 0.1 * np.diag(step)))[bad] - x[bad]
        values[bad] = yield from o.values(again)
    with np.errstate(all="ignore"):
        g = (values - f) / step
    probe = _farthest(x + np.diag(step), values, f)
    return Measured(np.where(np.isfinite(g), g, 0.0), np.full_like(x, np.nan), probe)


def _farthest(points: Vector, values: Vector, f: float) -> tuple[Vector, float]:
    with np.errstate(invalid="ignore"):  # f itself may have failed
        at = int(np.abs(np.where(np.isfinite(values), values - f, 0.0)).argmax())
    return points[at], float(values[at])


def other_side(o: Oracle, x: Vector, f: float, h: Vector, m: Measured, at: Indices) -> Stage[None]:
    """Complete one-sided differences of these coordinates to central ones, one evaluation each."""
    e = np.zeros((len(at), o.dim))
    e[np.arange(len(at)), at] = h[at]
    points = o.inside(x - e)
    back = x[at] - points[np.arange(len(at)), at]
    values = yield from o.values(points)
    with np.errstate(all="ignore"):
        left = (f - values) / back
        g, bend = (m.g[at] + left) / 2, (m.g[at] - left) / h[at]
    good = np.isfinite(left) & (back > 0)
    m.g[at] = np.where(good, g, m.g[at])
    m.diagonal[at] = np.where(
        good & (np.abs(bend) * h[at] ** 2 > SURE * o.rounding(f)), bend, np.nan
    )


def telling(
    o: Oracle, x: Vector, f: float, h: Vector, largest: Vector, m: Measured | None = None
) -> Stage[Measured]:
    """Central differences (``m`` if they are measured already).

    Coordinates whose values hardly differ are measured again with larger h.
    """
    if m is None:
        m = yield from central(o, x, f, h)
    for _ in range(2):
        mute = np.flatnonzero((np.abs(m.g) * h < 1e4 * o.rounding(f)) & (h < largest))
        if len(mute) == 0 or 2 * len(mute) > o.left / 4:
            break
        h = np.where(np.isin(np.arange(o.dim), mute), np.minimum(1e3 * h, largest), h)
        more = yield from central(o, x, f, h, mute)
        m.g[mute], m.diagonal[mute] = more.g, more.diagonal
    return m


def central(
    o: Oracle, x: Vector, f: float, h: Vector, at: Indices | None = None, *, sure: float = SURE
) -> Stage[Measured]:
    """2d evaluations: gradient and diagonal of the Hessian; one-sided at the bounds.

    ``at``: these coordinates only. Second differences are used if f changes by ``sure`` times its
    rounding error.
    """
    at = np.arange(o.dim) if at is None else at
    e = np.zeros((len(at), o.dim))
    e[np.arange(len(at)), at] = h[at]
    up, down = o.inside(x + e), o.inside(x - e)
    a, b = up[np.arange(len(at)), at] - x[at], x[at] - down[np.arange(len(at)), at]
    values = yield from o.values(np.concatenate([up, down]))
    plus, minus = values[: len(at)], values[len(at) :]
    with np.errstate(all="ignore"):
        right, left = (plus - f) / a, (f - minus) / b
        g = (b * right + a * left) / (a + b)
        bend = 2 * (right - left) / (a + b)
        # If one side failed or is outside the bounds, use the other one alone.
        g = np.where(np.isfinite(right) & (a > 0), g, left)
        g = np.where(np.isfinite(left) & (b > 0), g, right)
        tells = np.abs(plus - 2 * f + minus) > sure * o.rounding(f)
    known = np.isfinite(bend) & tells
    probe = _farthest(np.concatenate([up, down]), values, f)
    return Measured(np.where(np.isfinite(g), g, 0.0), np.where(known, bend, np.nan), probe)
