"""A derivative-free line search with parabolic interpolation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zotune.methods.parts.oracle import Oracle, Stage, Vector

ARMIJO = 1e-4
GROW, SHRINK, SMALLEST = 8.0, 0.1, 1e-10


@dataclass
class Accepted:
    """The result of a search."""

    x: Vector
    f: float
    length: float


def search(
    o: Oracle,
    x: Vector,
    f: float,
    p: Vector,
    slope: float,
    *,
    first: float = 1.0,
    known: float | None = None,
    trials: int = 20,
) -> Stage[Accepted | None]:
    """Find α with f(x + αp) ≤ f + c α gᵀp + 2ε, then move to minima of parabolas while they help.

    Each trial is one evaluation; ``known`` is the value of the first if it was evaluated before.
    Returns None if no step is accepted.
    """
    slack = 2 * o.rounding(f) if o.is_noisy else 0.0
    alpha, kept = first, None
    for _ in range(trials):
        point = o.inside(x + alpha * p)
        if known is None:
            value = yield from o.value(point)
        else:
            value, known = known, None
        bend = value - f - slope * alpha  # quadratic coefficient of the parabola, times α²
        best = -slope * alpha**2 / (2 * bend) if np.isfinite(bend) and bend > 0 else np.inf
        if value <= f + ARMIJO * alpha * slope + slack and (kept is None or value < kept.f):
            kept = Accepted(point, value, alpha)
            promised = f - value  # gain so far
            if best > 1.8 * alpha:
                alpha = min(best, GROW * alpha)
                continue
            gain = value - (f + slope * best / 2) if np.isfinite(best) else 0.0
            if best < 0.6 * alpha and gain > 0.2 * promised:
                alpha = best
                continue
            return kept
        if kept is not None:
            return kept
        alpha = float(np.clip(best, SHRINK * alpha, 0.5 * alpha))
        if np.abs(alpha * p).max() <= SMALLEST * (1e-6 + np.abs(x).max()):
            return None
    return kept
