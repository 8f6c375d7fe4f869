"""Descent in random subspaces, for budgets that cover few full blocks."""

from __future__ import annotations

import numpy as np

from zotune.methods.parts.noise import COSTS, differs, falls_short, finds_rounding
from zotune.methods.parts.oracle import Oracle, Stage, Vector

FINE, COARSE = 1e-6, 1e-2
"""Radius of differences relative to the size of a coordinate; its maximum if values are rounded."""
Q = 16
"""Directions of a subspace."""
DECADES = 7
"""Radii that are tried if f is constant over the usual one."""
WORTH = 5
"""Rounding is measured if the remaining budget is at least this many times its cost."""


def orthogonal(rng: np.random.Generator, d: int, q: int) -> Vector:
    """q orthonormal directions, (q, d)."""
    return np.linalg.qr(rng.standard_normal((d, q)))[0].T


def turned(o: Oracle, x: Vector, u: Vector, h: float) -> Vector:
    """The directions, with the sign of coordinates flipped that would leave the box.

    The directions are then no longer orthogonal, but each difference is still the slope along its
    direction.
    """
    outside = (x + h * u > o.high) | (x + h * u < o.low)
    return np.where(outside, -u, u) if outside.any() else u


def radius(o: Oracle, x: Vector, f: float, log_l: float | None) -> float:
    """Radius over which f changes by more than its rounding error, as far as that is known."""
    size = max(1.0, float(np.linalg.norm(x) / np.sqrt(o.dim)))
    if not (o.is_single or o.noise):
        return FINE * size
    if log_l is None or not np.isfinite(f):
        return COARSE * size
    error = o.noise or float(np.finfo(np.float32).eps) * abs(f)
    return size * float(np.clip(2 * np.sqrt(error / np.exp(log_l)), 0.01 * COARSE, COARSE))


def differing(o: Oracle, x: Vector, f: float, u: Vector, h: float, reach: float) -> Stage[float]:
    """A radius over which f changes, where it is constant over h: one value for each decade.

    It is ten times that of the first change, so that most directions have one, up to the reach.
    """
    radii = np.minimum(h * 10.0 ** np.arange(1, DECADES + 1), reach)
    values = yield from o.values(o.inside(x + radii[:, None] * u))
    changed = np.flatnonzero(values != f)
    return min(10 * float(radii[changed[0]]), reach) if len(changed) else reach


def subspace(
    o: Oracle,
    x: Vector,
    f: float,
    rng: np.random.Generator,
    *,
    reach: float,
    q: int,
    looks_for_noise: bool = False,
) -> Stage[tuple[Vector, float]]:
    """Descend by blocks of q orthonormal directions, with the step size from values on the way.

    x′ = x − t Σ vᵢ uᵢ, where v are the one-sided differences. f(x), ‖v‖² and f(x′) determine a
    parabola with curvature L = 2 (f(x′) − f + t‖v‖²)/(t‖v‖)². The next step is 1/L, by a running
    mean of log L. With ``looks_for_noise`` it returns at the start if the first step shows noise.
    """
    d = o.dim
    log_l: float | None = None
    least = 0.0  # the radius over which values differ, if the usual one is too small
    pool = np.zeros((0, d))
    while o.left > 1:
        q = min(q, o.left - 1)
        if len(pool) < q:
            pool = orthogonal(rng, d, min(d, max(q, 64)))
        u, pool = pool[:q], pool[q:]
        was_single = o.is_single
        h = max(radius(o, x, f, log_l), least)
        u = turned(o, x, u, h)
        values = yield from o.values(o.inside(x + h * u))
        v = np.where(np.isfinite(values), values - (f if np.isfinite(f) else 0.0), 0.0) / h
        norm = float(np.linalg.norm(v))
        if norm == 0 and not least and o.left > DECADES:
            least = yield from differing(o, x, f, u[0], h, reach)
        if norm == 0 or o.is_single != was_single:  # the differences were rounding errors
            continue
        g = v @ u
        t = reach / norm if log_l is None else float(np.exp(-log_l))
        for _ in range(12):
            if o.left < 1:
                return x, f
            point = o.inside(x - t * g)
            value = yield from o.value(point)
            if looks_for_noise and falls_short(value - f, t * norm**2) and o.left > 1:
                at = int(np.abs(v).argmax())
                o.is_noisy = yield from differs(o, x, f, (o.inside(x + h * u)[at], values[at]))
                if o.is_noisy:
                    return x, f
                if o.left > WORTH * COSTS:
                    size = np.full(d, h / FINE)
                    yield from finds_rounding(o, x, f, size, rng, everywhere=True)
            looks_for_noise = False
            bend = 2 * (value - f + t * norm**2) / (t * norm) ** 2
            if value < f:
                break
            t = float(np.clip(1 / bend, 0.05 * t, 0.5 * t)) if np.isfinite(bend) else 0.1 * t
        else:
            continue
        if bend > 0:
            new = float(np.log(bend))
            log_l = new if log_l is None else log_l + 0.3 * (new - log_l)
        else:
            log_l = -np.log(4 * t) if log_l is None else log_l - np.log(4.0)
        x, f = point, value
    return x, f
