"""Quasi-Newton descent on full blocks of differences."""

from __future__ import annotations

import numpy as np

from zotune.methods.parts.gradients import Measured, central, forward, telling
from zotune.methods.parts.linesearch import Accepted, search
from zotune.methods.parts.noise import differs, falls_short, finds_rounding
from zotune.methods.parts.oracle import Mask, Oracle, Stage, Vector

MEMORY = 100
"""Number of L-BFGS pairs kept; most runs make fewer, so that none is dropped."""
FRUGAL = 30
"""Number of full blocks below which the diagonal of the Hessian is measured only if worthwhile."""
FEW = 5
"""Up to this dimension the pairs soon span all directions, and the initial scaling matters little:
only one power of the diagonal is tried, with the shorter γ (as for small budgets)."""
TINY = 1e-3
"""If a step is shorter than this share of the quasi-Newton step, the slopes are measured again."""
COARSE = 1e-2
"""Share of the reach for differences if values are rounded to single precision."""
EPS = np.finfo(float).eps


class Memory:
    """L-BFGS pairs over a power of a diagonal D: H₀ = γ D⁻ᵉ, e = 1 or 0.

    e = 1 corrects different scales of the coordinates; e = 0 is better if the problem is rotated.
    γ is the shorter of Barzilai and Borwein's step lengths of the last pair, sᵀy / yᵀD⁻ᵉy. The
    longer one, sᵀDᵉs / sᵀy, moves faster along directions of low curvature that no pair covers yet;
    it is used as long as it does not exceed 1, the step by D alone (if e = 0, always).
    """

    def __init__(self, diagonal: Vector, *, is_long: bool = False) -> None:
        self.diagonal, self.is_long = diagonal, is_long
        self.pairs: list[tuple[Vector, Vector, float]] = []

    def add(self, s: Vector, y: Vector) -> None:
        """Add a pair if its curvature is positive."""
        sy = float(s @ y)
        if sy > 1e-10 * np.linalg.norm(s) * np.linalg.norm(y):
            self.pairs = [*self.pairs, (s, y, sy)][-MEMORY:]

    def times(self, g: Vector, e: int) -> Vector:
        """H g by the two-loop recursion."""
        q, kept = g.copy(), []
        for s, y, sy in reversed(self.pairs):
            a = float(s @ q) / sy
            q -= a * y
            kept.append(a)
        inverse = 1 / self.diagonal if e else np.ones_like(g)
        if self.pairs:
            s, y, sy = self.pairs[-1]
            gamma = sy / float(y @ (inverse * y))
            if self.is_long:
                longer = float(s @ (s / inverse)) / sy
                gamma = max(gamma, min(longer, 1.0)) if e else longer
        else:
            gamma = 1.0 if e else float(g @ g) / float(g @ (self.diagonal * g))
        r = gamma * inverse * q
        for (s, y, sy), a in zip(self.pairs, reversed(kept), strict=True):
            r += s * (a - float(y @ r) / sy)
        return r


def typical(x: Vector) -> Vector:
    """The typical size of each coordinate, estimated from the point."""
    return np.maximum(np.abs(x), 1e-3 * max(1.0, float(np.abs(x).max())))


def diagonal_of(m: Measured, x: Vector, reach: Vector) -> Vector:
    """|∂²f/∂xᵢ²| with a lower bound such that −g/D moves no coordinate beyond its reach."""
    found = np.nan_to_num(m.diagonal, nan=0.0)
    floor = np.abs(m.g) / reach
    d = np.where(found > 0, np.maximum(found, floor / 100), np.maximum(-found, floor))
    positive = d[d > 0]
    return np.maximum(d, 1e-8 * positive.max()) if len(positive) else np.ones_like(x)


def sized(x: Vector, reach: Vector) -> Vector:
    """|xᵢ| of each coordinate; its reach if that is zero."""
    return np.where(x == 0, reach, np.abs(x))


class PowerChoice:
    """Chooses the power of the diagonal: both are tried until one has won often enough."""

    def __init__(self, dim: int) -> None:
        self.wins, self.steps, self.both = [1.0, 1.0], 0, dim > FEW

    def powers(self) -> list[int]:
        """The powers to try at this step."""
        self.steps += 1
        if not self.both:
            return [1]
        low, high = sorted(self.wins)
        if low < 0.15 * high and self.steps % 6:
            return [int(self.wins[1] > self.wins[0])]
        return [1, 0]

    def won(self, power: int) -> None:
        """Record which power gave the lower value, after both were tried."""
        self.wins = [0.75 * w for w in self.wins]
        self.wins[power] += 1


def follow(
    o: Oracle,
    x: Vector,
    f: float,
    g: Vector,
    free: Mask,
    memory: Memory,
    reach: Vector,
    choice: PowerChoice,
) -> Stage[Accepted | None]:
    """Try the direction of each power with one evaluation, and search along the best."""
    tried = []
    for e in choice.powers():
        p = np.where(free, -memory.times(g, e), 0.0)
        slope = float(g @ p)
        if not (slope < 0 and np.isfinite(p).all()):
            memory.pairs.clear()
            p = -g / memory.diagonal
            slope = float(g @ p)
        longest = float((np.abs(p) / (10 * reach + np.abs(x))).max())
        tried.append((e, p, slope, min(1.0, 1 / max(longest, 1e-300))))
    if len(tried) == 1:
        _, p, slope, first = tried[0]
        return (yield from search(o, x, f, p, slope, first=first))
    points = np.stack([o.inside(x + first * p) for _, p, _, first in tried])
    values = yield from o.values(points)
    at = int(values.argmin())
    e, p, slope, first = tried[at]
    choice.won(e)
    return (yield from search(o, x, f, p, slope, first=first, known=float(values[at])))


def coarse(o: Oracle, x: Vector, f: float, bend: Vector) -> Vector:
    """Radius of central differences over which f changes by far more than its rounding error."""
    radius: Vector = np.maximum(6e-6 * typical(x), 10 * np.sqrt(o.noise / bend))
    return radius


def local(
    o: Oracle,
    x: Vector,
    f: float,
    reach: Vector,
    m: Measured | None = None,
    *,
    rng: np.random.Generator,
    stop: int = 0,
) -> Stage[tuple[Vector, float]]:
    """Descend until differences are dominated by rounding, or ``stop`` evaluations are left."""
    descent = QuasiNewton(o, x, f, reach, rng)
    yield from descent.begin(m)
    while o.left > stop and not (yield from descent.step()):
        pass
    return descent.x, descent.f


class QuasiNewton:
    """L-BFGS with one-sided differences, and with central ones once those are too inaccurate.

    Args:
        o: evaluates points and tracks the budget.
        x: the start.
        f: the value there.
        reach: how far coordinates are expected to move.
        rng: for the random lines on which rounding is measured.
    """

    def __init__(
        self, o: Oracle, x: Vector, f: float, reach: Vector, rng: np.random.Generator
    ) -> None:
        self.o, self.x, self.f, self.reach, self.rng = o, x, f, reach, rng
        self._start = f
        self._is_frugal = o.left < FRUGAL * (o.dim + 1)
        self._looks_for_noise = self._is_frugal
        self._is_central, self._stalls = False, 0
        self._knows_rounding = o.noise > 0

    def begin(self, m: Measured | None) -> Stage[None]:
        """Measure the gradient at the start, unless that was done, and scale the first step."""
        o, x, reach = self.o, self.x, self.reach
        if m is None and self._is_frugal:
            h = COARSE * reach if o.noise else 1e-6 * sized(x, reach)
            m = yield from forward(o, x, self.f, h, np.ones_like(x))
        elif m is None:
            h = COARSE * reach if o.noise else 1e-4 * sized(x, reach)
            m = yield from telling(o, x, self.f, h, COARSE * reach)
        self._m = m
        self._is_uniform = self._is_frugal and bool(np.isnan(m.diagonal).all())
        if self._is_uniform:
            longest = float((np.abs(m.g) / reach).max())
            diagonal = np.full_like(x, max(longest, 1e-300))
        else:
            diagonal = diagonal_of(m, x, reach)
        self._is_long = o.dim > FEW and o.budget > FRUGAL * (o.dim + 1)
        self._choice = PowerChoice(0 if self._is_uniform else o.dim)
        self._remember(diagonal)

    def step(self) -> Stage[bool]:
        """One step, and differences at its end; returns whether the descent has ended."""
        g, free = self._inward()
        if not g.any():
            return (yield from self._flat())
        x, f = self.x, self.f
        step = yield from follow(self.o, x, f, g, free, self._memory, self.reach, self._choice)
        gained = 0.0 if step is None else f - step.f
        if step is not None:
            if self._looks_for_noise and falls_short(gained, float(g @ (step.x - x))):
                self.o.is_noisy = yield from differs(self.o, x, f, self._m.probe)
                if self.o.is_noisy:
                    return True
            self.x, self.f = step.x, step.f
        self._looks_for_noise = False
        doubted = step is not None and step.length < TINY and not self._knows_rounding
        if doubted and (yield from self._find_rounding(everywhere=True)):
            yield from self.begin(None)  # the previous measurements were rounding errors
            return False
        small = gained <= 1e-9 * max(abs(self._start - self.f), 10 * EPS * abs(self.f))
        self._stalls = self._stalls + 1 if small else 0
        if step is None or self._stalls >= 2:
            return (yield from self._stalled())
        yield from self._measure(g)
        self._memory.add(self.x - x, self._m.g - g)
        if self._is_uniform and self._memory.pairs:
            s, _, sy = self._memory.pairs[-1]
            self._bend = np.full_like(x, sy / float(s @ s))
        return False

    def _inward(self) -> tuple[Vector, Mask]:
        """The gradient with 0 for coordinates that would leave the bounds, and the free ones."""
        o, x, g = self.o, self.x, self._m.g
        free = ~(((x <= o.low) & (g > 0)) | ((x >= o.high) & (g < 0)))
        return np.where(free, g, 0.0), free

    def _flat(self) -> Stage[bool]:
        """If one-sided differences vanish, use central ones; the end if these vanish, too.

        If no value differs at all and the budget is small, a wider search is the better use of it.
        """
        if self._is_central or (self._is_frugal and not self._m.g.any()):
            return True
        yield from self._find_rounding()
        self._is_central = True
        yield from self._measure_centrally()
        return False

    def _stalled(self) -> Stage[bool]:
        """After a step without gain: detect noise, use central differences, or drop the pairs."""
        o, before = self.o, self._is_central
        o.is_noisy = yield from differs(o, self.x, self.f, self._m.probe)
        if o.is_noisy:
            return True
        if not before:
            yield from self._find_rounding()
        elif self._stalls >= 3:
            return True
        self._is_central = True
        self._stalls = 0 if o.noise and not before else self._stalls + 1
        yield from self._measure_centrally()
        if before:
            self._remember(diagonal_of(self._m, self.x, self.reach))
        return False

    def _measure(self, g: Vector) -> Stage[None]:
        """Measure the gradient at x, on the downhill side of the last gradient g."""
        if self._is_central:
            yield from self._measure_centrally()
            return
        o, x, f = self.o, self.x, self.f
        h = 2 * np.sqrt(o.rounding(f) / self._bend)
        longest = 1e-2 * np.maximum(typical(x), 0.1 * self.reach) if o.noise else 1e-5 * typical(x)
        h = np.clip(h, 1e-9 * typical(x), longest)
        self._m = yield from forward(o, x, f, h, -g)

    def _measure_centrally(self) -> Stage[None]:
        radius = coarse(self.o, self.x, self.f, self._bend)
        self._m = yield from central(self.o, self.x, self.f, radius)

    def _find_rounding(self, *, everywhere: bool = False) -> Stage[bool]:
        """Whether values around x are rounded more than double precision does."""
        self._knows_rounding, size = True, sized(self.x, self.reach)
        looked = finds_rounding(self.o, self.x, self.f, size, self.rng, everywhere=everywhere)
        return (yield from looked)

    def _remember(self, diagonal: Vector) -> None:
        """Start with an empty memory for this diagonal."""
        self._memory = Memory(diagonal, is_long=self._is_long)
        self._bend = self._memory.diagonal
