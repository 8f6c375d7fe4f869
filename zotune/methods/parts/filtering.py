"""Quasi-Newton descent under mild noise, with differences over distances above the noise floor.

This is implicit filtering (Kelley 2011) with a radius from the measured noise ε instead of a fixed
list: h = c √(ε/D), where D is the curvature along the coordinate, so that curvature alone changes f
by c²ε/2. If the noise decreases with f, so does h.
"""

from __future__ import annotations

import numpy as np

from zotune.methods.parts.gradients import Measured, central, forward
from zotune.methods.parts.linesearch import Accepted, search
from zotune.methods.parts.local import Memory, diagonal_of, typical
from zotune.methods.parts.noise import succeeded
from zotune.methods.parts.oracle import Mask, Oracle, Stage, Vector

WIDE, FAR, CAP = 10.0, 0.1, 0.5
"""c above; the first and the largest radius, as shares of the reach."""
ASKED = 4
"""Evaluations of each new centre, to estimate its value and the noise there."""
FORGET = 0.5
"""Factor by which the weight of older second differences decreases at each block."""
CLEAR, ENOUGH = 20.0, 50.0
"""One-sided differences are used if slopes exceed their error by the first factor. h need not
exceed the second factor times noise / slope."""
TELLS = 1.5
"""Smallest usable ratio of slopes to their error, as root mean squares."""


class Bends:
    """The running mean of second differences, each weighted by its error √6 ε/h²."""

    def __init__(self, dim: int) -> None:
        self.mean, self.weight = np.zeros(dim), np.zeros(dim)

    def add(self, m: Measured, h: Vector, noise: float) -> None:
        """Add a block; the weight of older ones is halved."""
        new = np.where(np.isfinite(m.diagonal), h**4 / max(noise, 1e-300) ** 2, 0.0)
        old = FORGET * self.weight
        self.weight = old + new
        total = old * self.mean + new * np.nan_to_num(m.diagonal)
        self.mean = total / np.maximum(self.weight, 1e-300)


class Filter:
    """State of the descent under noise: slopes and their error, curvature, and past steps.

    Args:
        o: the oracle, with the noise at the start.
        x: the start.
        f: its value.
        reach: how far coordinates are expected to move.
    """

    def __init__(self, o: Oracle, x: Vector, f: float, reach: Vector) -> None:
        self.o, self.x, self.f, self.reach = o, x, f, reach
        self.h = FAR * reach
        self.g, self.error = np.zeros(o.dim), np.zeros(o.dim)
        self.free = np.ones(o.dim, dtype=bool)
        self.at: Vector | None = None
        """The point at which g was measured."""
        self.one_sided = False
        self.bends, self.memory = Bends(o.dim), Memory(np.ones(o.dim))

    def measure(self) -> Stage[None]:
        """Measure g at x; by one-sided differences if slopes are far above their error."""
        o, x, h = self.o, self.x, self.h
        before, g, error = self.at, self.g, self.error
        if self.one_sided:
            m = yield from forward(o, x, self.f, h, -g)
            self.error = np.sqrt(2) * o.noise / h + self.memory.diagonal * h / 2
        else:
            m = yield from central(o, x, self.f, h, sure=0)
            self.error = o.noise / (np.sqrt(2) * h)
            self.bends.add(m, h, o.noise)
            self.memory.diagonal = diagonal_of(Measured(m.g, self.bends.mean), x, self.reach)
        self.error = np.maximum(self.error, 1e-300)
        self.free = ~(((x <= o.low) & (m.g > 0)) | ((x >= o.high) & (m.g < 0)))
        self.at, self.g = x, np.where(self.free, m.g, 0.0)
        if before is not None:
            s, y = x - before, self.g - g
            if float(s @ y) > 3 * float(np.linalg.norm(s * np.hypot(self.error, error))):
                self.memory.add(s, y)

    def advance(self) -> Stage[bool]:
        """Search along −H g, evaluate the new point again; whether f fell by more than noise."""
        o, step, before = self.o, None, self.f
        if np.sqrt(np.mean((self.g / self.error) ** 2)) > TELLS:
            step = yield from along(o, self.x, self.f, self.g, self.free, self.memory, self.reach)
        told = yield from o.values(np.stack([self.x if step is None else step.x] * ASKED))
        again = succeeded(told)
        if not len(again):
            return False
        value = float(np.mean(again))
        if step is None:
            self.memory.pairs.clear()
            self.f = (self.f + len(again) * value) / (1 + len(again))
        elif value < self.f:
            self.x, self.f = step.x, value
        many = len(again)
        o.noise = float(np.sqrt((o.noise**2 + many * np.var(again)) / max(many, 2)))
        return self.f < before - o.noise / 2

    def choose_radius(self, gained: bool) -> None:
        """Choose the next h, as small as the slopes and the curvature allow."""
        curvature = self.memory.diagonal
        near = np.sqrt(self.o.noise / curvature)
        clear = np.sqrt(np.mean((self.g / (curvature * near)) ** 2)) > CLEAR
        self.one_sided = bool(gained and clear)
        enough = ENOUGH * self.o.noise / max(float(np.sqrt(np.mean(self.g**2))), 1e-300)
        h = np.minimum((2 if self.one_sided else WIDE) * near, enough)
        self.h = np.clip(h, 1e-6 * typical(self.x), CAP * self.reach)


def filtering(
    o: Oracle, x: Vector, f: float, reach: Vector, *, stop: int
) -> Stage[tuple[Vector, float, float]]:
    """Descend until noise hides slopes twice, or no more than ``stop`` evaluations are left.

    Returns:
        The point, its value, and the last radius as a share of the reach.
    """
    state, failures = Filter(o, x, f, reach), 0
    while o.left - 2 * o.dim - ASKED > stop and failures < 2:
        yield from state.measure()
        gained = yield from state.advance()
        failures = 0 if gained else failures + 1
        state.choose_radius(gained)
        o.answer = state.x, state.f
    return state.x, state.f, float(np.median(state.h / reach))


def along(
    o: Oracle, x: Vector, f: float, g: Vector, free: Mask, memory: Memory, reach: Vector
) -> Stage[Accepted | None]:
    """Search along −H g."""
    p = np.where(free, -memory.times(g, 1), 0.0)
    if not g @ p < 0:
        memory.pairs.clear()
        p = -g / memory.diagonal
    longest = float((np.abs(p) / (10 * reach + np.abs(x))).max())
    first = min(1.0, 1 / max(longest, 1e-300))
    return (yield from search(o, x, f, p, float(g @ p), first=first, trials=6))
