"""A step of Levenberg and Marquardt: ‖r + J p‖² is minimised over an ellipsoid and the bounds."""

from __future__ import annotations

import numpy as np

from zotune.methods.start import Mask, Matrix, Vector

RANK = 1e-13
"""Singular values below this share of the largest are taken as zero."""


def bounded_step(
    r: Vector, jacobian: Matrix, scale: Vector, radius: float, low: Vector, high: Vector
) -> Vector:
    """The p with ‖scale · p‖ ≤ radius and low ≤ p ≤ high that makes ‖r + J p‖ small.

    Coordinates that would leave the bounds are set onto them, and the others are solved for again.
    Those that begin at a bound and would leave it are not moved.

    Args:
        r: residuals, (m,).
        jacobian: J, (m, d).
        scale: weights of the coordinates, positive, (d,).
        radius: the longest step.
        low: lower bounds of p, at most 0.
        high: upper bounds of p, at least 0.

    >>> J, r = np.eye(2), np.array([-3.0, -4.0])
    >>> far, one = np.full(2, 9.0), np.ones(2)
    >>> bounded_step(r, J, one, 9.0, -far, far).round(6).tolist()
    [3.0, 4.0]
    >>> bounded_step(r, J, one, 1.0, -far, far).round(3).tolist()
    [0.6, 0.8]
    >>> bounded_step(r, J, one, 9.0, -far, one).round(3).tolist()
    [1.0, 1.0]
    """
    slope = jacobian.T @ r
    free: Mask = ~(((low >= 0) & (slope > 0)) | ((high <= 0) & (slope < 0)))
    p = np.zeros_like(slope)
    for _ in range(len(slope)):
        if not free.any():
            break
        left = radius**2 - float(((scale * p)[~free] ** 2).sum())
        moved = r + jacobian[:, ~free] @ p[~free]
        p[free] = _step(moved, jacobian[:, free], scale[free], max(left, 0.0) ** 0.5)
        out = free & ((p < low) | (p > high))
        p = np.clip(p, low, high)
        if not out.any():
            break
        free &= ~out
    return p


def _step(r: Vector, jacobian: Matrix, scale: Vector, radius: float) -> Vector:
    """The same without bounds: (JᵀJ + λ diag(scale²)) p = −Jᵀr, with λ = 0 if that is short."""
    u, s, vt = np.linalg.svd(jacobian / scale, full_matrices=False)
    if not len(s) or s[0] == 0 or radius == 0:
        return np.zeros_like(scale)
    keep = s > RANK * s[0]
    s, along = s[keep], u[:, keep].T @ r
    damping = _damping(s, along, radius)
    step: Vector = -(vt[keep].T @ (s * along / (s * s + damping))) / scale
    return step


def _damping(s: Vector, along: Vector, radius: float) -> float:
    """The λ for which the step has the length of the radius; 0 if it is shorter without."""

    def length(damping: float) -> float:
        return float(np.linalg.norm(s * along / (s * s + damping)))

    if length(0.0) <= radius:
        return 0.0
    low, high = 0.0, float(np.linalg.norm(s * along)) / radius
    for _ in range(100):
        middle = (low * high) ** 0.5 if low else high * 1e-3
        if length(middle) > radius:
            low = middle
        elif middle < 1e-280:
            return middle
        else:
            high = middle
        if low and high <= 1.01 * low:
            break
    return high
