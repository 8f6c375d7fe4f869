"""Estimate the noise of f: repeated values at a point, and ECNoise (Moré and Wild 2011) on a line.

Rounding inside f (float32, ``round``) is noise that repetition at one point cannot show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np

from zotune.methods.parts.oracle import Oracle, Spent, Stage, Vector

POINTS, SPACINGS = 7, (1e-8, 1e-6, 1e-4)
COSTS = POINTS * len(SPACINGS)
"""Number of points on a line, their spacings as shares of its length, and the cost of them all."""
ROUNDED = 1e3
"""Rounding is taken into account from this many units in the last place on."""
LOOKS, FEWEST_LOOKS = 8, 4
"""Evaluations at the point, and as many away from it; a quarter of a small budget, but at least the
second number."""
CERTAIN = 3.0
"""Standard deviations by which an answer must be better than the start."""
RANKED, FEWEST = 7, 3
"""Values per point needed for a rank test, and for any comparison at all."""
SHORTFALL = 0.01
"""If the first step changes f by less than this share of the prediction, noise is tested for."""


def finds_rounding(
    o: Oracle,
    x: Vector,
    f: float,
    size: Vector,
    rng: np.random.Generator,
    *,
    everywhere: bool = False,
) -> Stage[bool]:
    """Whether values are rounded more coarsely than in double precision; stores how much.

    Takes 7 to 21 values near x. ``everywhere``: if the smallest distance shows no rounding, try
    larger ones too, because only a part of f may be rounded.
    """
    along, least = rng.choice([-1.0, 1.0], o.dim) * size, ROUNDED * np.finfo(float).eps * abs(f)
    o.noise = 0.0
    for spacing in SPACINGS:
        points = o.inside(x + spacing * np.arange(POINTS)[:, None] * along)
        values = yield from o.values(points)
        if not np.isfinite(values).all():
            break
        if len(np.unique(values)) > POINTS // 2:
            measured = from_table(values)
            o.noise = measured if measured > least else 0.0
            if o.noise or not everywhere:
                break
    return o.noise > 0


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


@dataclass
class Noise:
    """The noise of values at one point."""

    center: float
    """Median of the values."""
    deviation: float
    """Their standard deviation, estimated from the median absolute deviation."""
    share: float
    """Ratio of ``deviation`` to the deviation of values at the distance of the first search."""
    repeats: bool
    """Whether most values are equal: outliers of an otherwise deterministic function."""

    def __str__(self) -> str:
        if self.repeats:
            return "most values at one point are equal, some are outliers; doubtful ones came twice"
        return (
            f"values at one point differ by {self.deviation:.2g}, "
            f"{self.share:.2g} of those at such distances"
        )

    def at_the_end(self, deviation: float) -> str:
        """A sentence on how the noise limits the accuracy of the result."""
        return (
            f"values at one point differ by {self.deviation:.2g} at first and by {deviation:.2g} "
            "at the answer (standard deviation); smaller differences of the loss mean nothing"
        )


def falls_short(change: float, predicted: float) -> bool:
    """Whether a whole step changed f by far less than the differences at its start predicted.

    Noise causes this, because over a small distance it looks like a slope. A curved function whose
    change happens to be nearly zero does, too; evaluating two points again distinguishes the two.

    >>> falls_short(0.5, -1000.0), falls_short(-400.0, -1000.0), falls_short(np.inf, -1000.0)
    (True, False, False)
    """
    return abs(change) < SHORTFALL * abs(predicted)


def differs(o: Oracle, x: Vector, f: float, probe: tuple[Vector, float] | None) -> Stage[bool]:
    """Whether the centre or the probe gets another value when it is evaluated again."""
    if probe is None:
        return False
    point, value = probe
    again = yield from o.values(np.stack([x, point]), anew=True)
    then = np.array([f, value])
    return bool((np.isfinite(again) & np.isfinite(then) & (again != then)).any())


def look_at_noise(o: Oracle, x: Vector, radius: Vector, rng: np.random.Generator) -> Stage[Noise]:
    """Measure noise by eight evaluations at x and eight around it; fewer if the budget is small."""
    n = int(np.clip(o.left // (2 * FEWEST_LOOKS), FEWEST_LOOKS, LOOKS))
    points = o.inside(x + radius * rng.standard_normal((n, o.dim)))
    values = yield from o.once(np.concatenate([np.stack([x] * n), points]))
    same = succeeded(values[:n])
    _, counts = np.unique(same, return_counts=True)
    deviation, apart = _deviation(same), succeeded(values[n:])
    if len(apart) > n // 2:
        spread = _deviation(apart)
    else:  # most evaluations at that distance fail; compare the others with those at x
        spread = float(np.abs(apart - middle(same)).max(initial=0.0)) or np.inf
    share = deviation / max(spread, 1e-300)
    repeats = bool(len(same) and counts.max() >= n // 2)
    return Noise(middle(same), deviation, share, repeats)


def succeeded(values: Vector) -> Vector:
    """The values of evaluations that did not fail."""
    found: Vector = values[np.isfinite(values)]
    return found


def middle(values: Vector) -> float:
    """The median of evaluations that did not fail; inf if all have."""
    known = succeeded(values)
    return float(np.median(known)) if len(known) else np.inf


def _deviation(values: Vector) -> float:
    """The standard deviation from the median absolute deviation; 0 if all have failed."""
    known = succeeded(values)
    return 1.4826 * float(np.median(np.abs(known - np.median(known)))) if len(known) else 0.0


def race(o: Oracle, points: Sequence[Vector]) -> Stage[tuple[Vector, float, float]]:
    """The best of several points if it is significantly better than the first; else the first.

    The remaining budget is spent on them in equal parts. Two points are compared by the ranks of
    their values (Mann and Whitney), which is robust to outliers. Failed evaluations are left out; a
    point at which most of them fail cannot win.

    Returns:
        The point, the median of its values, and their deviation.
    """
    points = [p for i, p in enumerate(points) if not any((p == q).all() for q in points[:i])]
    each = o.left // len(points)
    if each < 2:
        raise Spent
    told = yield from o.once(np.repeat(np.stack(points), each, axis=0))
    values = told.reshape(len(points), each)
    works = np.isfinite(values).mean(1) > 0.5
    medians = [middle(row) if ok else np.inf for row, ok in zip(values, works, strict=True)]
    at = int(np.argmin(medians))
    if works[0] and not certain(succeeded(values[at]), succeeded(values[0])):
        at = 0
    return points[at], middle(values[at]), _deviation(values[at])


def certain(low: Vector, high: Vector) -> bool:
    """Whether values are significantly below others: by ranks, or by a wide gap if they are few.

    >>> certain(np.array([1.0, 1.1, 0.9]), np.array([5.0, 5.1, 5.3]))
    True
    """
    if min(len(low), len(high)) >= RANKED:
        return sigmas(low, high) >= CERTAIN
    if min(len(low), len(high)) < FEWEST:
        return False
    return bool(high.min() - low.max() > CERTAIN * max(np.ptp(low), np.ptp(high)))


def sigmas(low: Vector, high: Vector) -> float:
    """How many standard deviations the ranks of ``low`` lie below those of ``high``."""
    n, m = len(low), len(high)
    wins = (low[:, None] < high).sum() + 0.5 * (low[:, None] == high).sum()
    return float((wins - n * m / 2) / np.sqrt(max(n * m, 1) * (n + m + 1) / 12))
