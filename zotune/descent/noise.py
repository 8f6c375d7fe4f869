"""How far values of f can be trusted: ECNoise (Moré and Wild 2011) on a line through x.

Rounding inside f (float32, ``round``) is noise that no repetition at one point shows.
"""

from __future__ import annotations

from math import factorial

import numpy as np

from zotune.descent.oracle import Oracle, Stage, Vector

POINTS = 7


def rounding_noise(o: Oracle, x: Vector, size: Vector, rng: np.random.Generator) -> Stage[float]:
    """The standard deviation of f's noise from 7 to 21 values close by; 0 where none is seen."""
    along = rng.choice([-1.0, 1.0], o.dim) * size
    for spacing in (1e-8, 1e-6, 1e-4):
        points = o.inside(x + spacing * np.arange(POINTS)[:, None] * along)
        values = yield from o.values(points)
        if not np.isfinite(values).all():
            return 0.0
        if len(np.unique(values)) > POINTS // 2:
            return from_table(values)
    return 0.0


def from_table(values: Vector) -> float:
    """σ from the difference table: σ_k² = (k!)²/(2k)! mean (Δᵏf)², where three levels agree."""
    levels, differences, turns = [], values, []
    for k in range(1, POINTS):
        differences = np.diff(differences)
        gamma = factorial(k) ** 2 / factorial(2 * k)
        levels.append(float(np.sqrt(gamma * np.mean(differences**2))))
        turns.append(bool((differences.max() > 0) and (differences.min() < 0)))
    for k in range(len(levels) - 2):
        three = levels[k : k + 3]
        if max(three) <= 4 * min(three) and all(turns[k : k + 2]):
            return levels[k]
    return 0.0
