"""Newton's method with full finite-difference Hessians, for low dimensions."""

from __future__ import annotations

import numpy as np

from zotune.methods.parts.gradients import forward
from zotune.methods.parts.linesearch import search
from zotune.methods.parts.oracle import Oracle, Stage, Vector

FLOOR = 1e-7
"""Lower bound of the curvature as a share of the largest, in coordinates of unit curvature."""


def whole(d: int) -> int:
    """Evaluations of a gradient and a Hessian in one block."""
    return d * (d + 3) // 2


def block(o: Oracle, x: Vector, f: float, h: Vector) -> Stage[tuple[Vector, Vector]]:
    """d (d + 3) / 2 evaluations: gradient and Hessian from one block.

    gᵢ and Hᵢᵢ from f(x ± hᵢeᵢ); Hᵢⱼ from f(x + hᵢeᵢ + hⱼeⱼ), on the downhill sides.
    """
    d = o.dim
    e = np.diag(h)
    i, j = np.triu_indices(d, 1)
    axes = yield from o.values(o.inside(np.concatenate([x + e, x - e])))
    plus, minus = axes[:d], axes[d:]
    with np.errstate(all="ignore"):
        g = (plus - minus) / (2 * h)
        one_sided = np.where(np.isfinite(plus), (plus - f) / h, (f - minus) / h)
        g = np.where(np.isfinite(g), g, one_sided)
        bend = (plus - 2 * f + minus) / h**2
        side = np.where(minus < plus, -1.0, 1.0)
        low = np.where(side > 0, plus, minus)
        pairs = yield from o.values(o.inside(x + side[i, None] * e[i] + side[j, None] * e[j]))
        mixed = (pairs - low[i] - low[j] + f) / (side[i] * side[j] * h[i] * h[j])
    hessian = np.diag(np.nan_to_num(bend, posinf=0, neginf=0))
    hessian[i, j] = hessian[j, i] = np.nan_to_num(mixed, posinf=0, neginf=0)
    return np.nan_to_num(g, posinf=0, neginf=0), hessian


def direction(g: Vector, hessian: Vector, reach: Vector) -> Vector:
    """−|H|⁻¹ g in coordinates scaled by the diagonal; eigenvalues at least FLOOR of the largest."""
    d = np.maximum(np.abs(np.diagonal(hessian)), np.abs(g) / (100 * reach))
    d = np.sqrt(np.where(d > 0, d, 1.0))
    values, axes = np.linalg.eigh(hessian / np.outer(d, d))
    values = np.abs(values)
    values = np.maximum(values, FLOOR * values.max() or 1.0)  # 1 if all curvatures are 0
    p: Vector = -(axes @ ((axes.T @ (g / d)) / values)) / d
    return p


def updated(hessian: Vector, s: Vector, y: Vector) -> Vector:
    """The Hessian after a step s that changed the gradient by y (symmetric rank one)."""
    r = y - hessian @ s
    along = float(r @ s)
    if abs(along) <= 1e-8 * float(np.linalg.norm(r) * np.linalg.norm(s)):
        return hessian
    return hessian + np.outer(r, r) / along


def newton(o: Oracle, x: Vector, f: float, reach: Vector) -> Stage[tuple[Vector, float]]:
    """Descend until a step gains nothing with either of two sizes of differences.

    If the budget does not cover another Hessian, the last one is used with new gradients.
    """
    size, f0 = 1e-4, f
    hessian: Vector | None = None
    g, last = np.zeros(o.dim), x
    enough = whole(o.dim)
    while True:
        h = size * np.where(x == 0, reach, np.abs(x))
        if hessian is None or o.left > enough:
            g, hessian = yield from block(o, x, f, h)
        else:
            before, g = g, (yield from forward(o, x, f, 1e-3 * h, -g)).g
            hessian = updated(hessian, x - last, g - before)
        if not g.any() or not np.isfinite(hessian).all():
            return x, f
        p = direction(g, hessian, reach)
        longest = float((np.abs(p) / (10 * reach + np.abs(x))).max())
        first = min(1.0, 1 / max(longest, 1e-300))
        step = yield from search(o, x, f, p, float(g @ p), first=first)
        gained = 0.0 if step is None else f - step.f
        last = x
        if step is not None:
            x, f = step.x, step.f
        if gained <= 1e-10 * max(f0 - f, 1e-6 * abs(f)):
            if size == 1e-4:
                size = 1e-5
                continue
            return x, f
