"""Quasi-Newton descent under mild noise: differences over distances at which f tells.

Implicit filtering (Kelley 2011) with a radius from the measured noise ε instead of a fixed list:
h = c √(ε/D) with D the curvature along the coordinate, so that f changes by c²ε/2 by its curvature
alone. Where noise falls with f, h shrinks with it.
"""

from __future__ import annotations

import numpy as np

from zotune.descent.gradients import Measured, central
from zotune.descent.linesearch import Step, search
from zotune.descent.local import Memory, diagonal_of, typical
from zotune.descent.oracle import Mask, Oracle, Stage, Vector

WIDE, FAR, CAP = 10.0, 0.1, 0.5
"""c above; the first and the largest radius as shares of the reach."""
ASKED = 4
"""Evaluations of each new centre, for its value and for the noise there."""
FORGET = 0.5
"""Weight that older second differences keep from one block to the next."""
TELLS = 1.5
"""Slopes must be so many times their error, in the root mean square."""


class Bends:
    """The running mean of second differences, each weighted by its error √6 ε/h²."""

    def __init__(self, dim: int) -> None:
        self.mean, self.weight = np.zeros(dim), np.zeros(dim)

    def add(self, m: Measured, h: Vector, noise: float) -> None:
        """One more block; older ones lose half of their weight."""
        new = np.where(np.isfinite(m.diagonal), h**4 / max(noise, 1e-300) ** 2, 0.0)
        old = FORGET * self.weight
        self.weight = old + new
        total = old * self.mean + new * np.nan_to_num(m.diagonal)
        self.mean = total / np.maximum(self.weight, 1e-300)


def filtering(
    o: Oracle, x: Vector, f: float, reach: Vector, *, stop: int
) -> Stage[tuple[Vector, float, float]]:
    """Descend until noise hides slopes twice, or no more than ``stop`` evaluations are left.

    Returns:
        The point, its value, and the last radius as a share of the reach.
    """
    h, last, failures = FAR * reach, None, 0
    bends, memory = Bends(o.dim), Memory(np.ones(o.dim))
    while o.left - 2 * o.dim - ASKED > stop and failures < 2:
        m = yield from central(o, x, f, h, sure=0)
        free = ~(((x <= o.low) & (m.g > 0)) | ((x >= o.high) & (m.g < 0)))
        g = np.where(free, m.g, 0.0)
        error = np.maximum(o.noise / (np.sqrt(2) * h), 1e-300)
        bends.add(m, h, o.noise)
        memory.diagonal = diagonal_of(Measured(m.g, bends.mean), x, reach)
        if last is not None:
            s, y = x - last[0], g - last[1]
            if float(s @ y) > 3 * float(np.linalg.norm(s * np.hypot(error, last[2]))):
                memory.add(s, y)
        last = x, g, error
        step = None
        if np.sqrt(np.mean((g / error) ** 2)) > TELLS:
            step = yield from along(o, x, f, g, free, memory, reach)
        again = yield from o.values(np.stack([x if step is None else step.x] * ASKED))
        value, before = float(np.mean(again)), f
        if step is None:
            memory.pairs.clear()
            f = (f + ASKED * value) / (1 + ASKED)
        elif value < f:
            x, f = step.x, value
        o.noise = float(np.sqrt((o.noise**2 + ASKED * np.var(again)) / ASKED))
        failures = 0 if f < before - o.noise / 2 else failures + 1
        h = np.clip(WIDE * np.sqrt(o.noise / memory.diagonal), 1e-6 * typical(x), CAP * reach)
    return x, f, float(np.median(h / reach))


def along(
    o: Oracle, x: Vector, f: float, g: Vector, free: Mask, memory: Memory, reach: Vector
) -> Stage[Step | None]:
    """Search along −H g."""
    p = np.where(free, -memory.times(g, 1), 0.0)
    if not g @ p < 0:
        memory.pairs.clear()
        p = -g / memory.diagonal
    longest = float((np.abs(p) / (10 * reach + np.abs(x))).max())
    first = min(1.0, 1 / max(longest, 1e-300))
    return (yield from search(o, x, f, p, float(g @ p), first=first, trials=6))
