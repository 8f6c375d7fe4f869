"""The automatic method, the default: it chooses among the parts by the first values.

The method is chosen from the dimension d, the budget and the first values:

- If the budget covers fewer than five full blocks of d + 1 evaluations, each step works in a random
  subspace (``subspace``). Noise is tested for if the first step gains far less than predicted.
- Otherwise the start is evaluated again, to detect noise, and f is measured over a small and a
  large distance (``ruggedness``); on fewer coordinates if the budget covers fewer than thirty
  blocks (``looking``). Smooth functions are minimised by quasi-Newton steps with a derivative-free
  line search (``local``, ``linesearch``), in low dimensions followed by Newton's method
  (``newton``). Rugged functions are smoothed first (``smoothing``). If a descent has converged
  before the budget is spent, a wider search starts at the best point, then another descent.
- For functions rounded to single precision or less, differences are taken over larger distances.
- For noisy functions the method depends on the noise: differences over larger distances if it is
  mild (``filtering``); smoothing with larger populations if it is loud; the deterministic method
  with repeated evaluation of doubtful values if only some values are outliers. The last tenth of
  the budget compares the result with the start, which is returned unless the result is
  significantly better.

Every value is charged, and the best point is never lost. A known point is evaluated again only to
see or to measure noise. A value of inf or NaN rejects the point.
The constants were tuned on one half of the suites of ``zotune bench blackbox``.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from zotune.methods import AUTO, register
from zotune.methods.parts.comparing import THREE, TWO, reserved
from zotune.methods.parts.filtering import ASKED, filtering
from zotune.methods.parts.gradients import Measured
from zotune.methods.parts.local import FRUGAL, local
from zotune.methods.parts.looking import is_noisy, look
from zotune.methods.parts.newton import newton
from zotune.methods.parts.noise import FEWEST_LOOKS, look_at_noise, race
from zotune.methods.parts.oracle import Oracle, Spent, Stage, Vector
from zotune.methods.parts.smoothing import smoothing
from zotune.methods.parts.subspace import Q, subspace
from zotune.methods.parts.units import in_units
from zotune.methods.start import Start

SEVERAL = 5
"""Number of full blocks below which the descent works in random subspaces."""
NEWTON, BFGS = 5, 0.6
"""Newton's method follows BFGS up to this dimension; BFGS then gets this share of the budget."""
SHARE, AGAIN = 0.75, 0.75
"""Share of the remaining budget for smoothing, on rugged functions and after each convergence."""
MILD = 0.1
"""Noise is mild if it is at most this share of the spread of values: differences still work."""
FILTER = 0.75
"""Share of the remaining budget for differences under mild noise; smoothing gets the rest."""
LARGER, LOUD = 3, 0.3
"""Factor by which the population grows if the noise exceeds this share of the spread."""
WORTH = 1 + 2 * FEWEST_LOOKS + ASKED + TWO
"""Cost of one step under noise, without its differences; with less left, noise is not tested."""


@register(AUTO, formula="one of the others, or several in turn", version=7)
def auto(start: Start) -> Stage[str]:
    """Chooses by dimension, budget and first values: quasi-Newton, subspaces, smoothing, …"""
    yield from in_units(lambda inner: Automatic(inner).run(), start)
    return ""


class Automatic:
    """The choice among the parts, and what they hand one another.

    Args:
        start: where the run starts; its bounds have comparable widths.
    """

    def __init__(self, start: Start) -> None:
        self.start, self.oracle, self.rng = start, Oracle(start), start.rng()
        self._origin, self.restarts = start.x, 0

    def run(self) -> Stage[None]:
        """The whole run: choose the method by the budget and the first values."""
        o, rng, x, f = self.oracle, self.rng, self.start.x, self.start.value
        reach = self.start.reach
        end = x
        blocks = o.left / (o.dim + 1)
        if blocks < SEVERAL:
            self._choose("subspaces", f"the budget covers {blocks:.2g} full blocks")
            far = float(np.linalg.norm(reach))
            yield from subspace(o, x, f, rng, reach=far, q=Q, looks_for_noise=True)
        else:
            end, f = yield from self._look_first(x, f, reach)
        if o.is_noisy:
            yield from self._noisy(end, f, reach, self._moved(x, end, reach))

    def _look_first(self, x: Vector, f: float, reach: Vector) -> Stage[tuple[Vector, float]]:
        """Measure noise and ruggedness first, then descend."""
        o = self.oracle
        if o.left > WORTH + 2 * o.dim:
            yield from is_noisy(o, x, f, 2 if o.left >= FRUGAL * (o.dim + 1) else 1)
        end = x
        if not o.is_noisy:
            end, f = yield from self._descend(x, f, reach)
        if not o.is_noisy:
            yield from subspace(o, o.best_x, o.best, self.rng, reach=1e-3, q=min(Q, o.dim))
        return end, f

    def _moved(self, x: Vector, end: Vector, reach: Vector) -> float:
        """How far a descent came before noise ended it, as a share of the reach; 1 at its start."""
        if end is x:
            return 1.0
        moved = float(np.linalg.norm((end - x) / reach)) / np.sqrt(self.oracle.dim)
        return float(np.clip(moved, 0.01, 1.0))

    def _descend(self, x: Vector, f: float, reach: Vector) -> Stage[tuple[Vector, float]]:
        """Descents and wider searches until the budget is spent or noise is seen."""
        o = self.oracle
        m, rough = yield from look(o, x, f, reach, self.rng)
        if rough is None:
            self._choose("quasi-newton", f"the budget covers {o.budget // (o.dim + 1)} full blocks")
        elif rough.is_rugged:
            self._choose("smoothing", f"small and large differences disagree ({rough})")
            x, f = yield from self._wider(x, reach, SHARE)
            m = None
        else:
            self._choose("quasi-newton", f"small and large differences agree ({rough})")
        with suppress(Spent):
            x, f = yield from self._local(x, f, reach, m)
            while o.repeats or not o.is_noisy:
                self.restarts += 1
                self.start.choose("restarts", self.restarts, "a descent had converged")
                x, f = yield from self._wider(x, reach, AGAIN)
                x, f = yield from self._local(x, f, reach)
        return x, f

    def _wider(self, x: Vector, reach: Vector, share: float) -> Stage[tuple[Vector, float]]:
        """Smoothing with a share of the remaining budget; returns the best point."""
        o = self.oracle
        spend = int(share * o.left)
        end, _ = yield from smoothing(o, x, 1.0, reach, self.rng, spend=spend, until=1e-3)
        if o.repeats:
            yield from o.value(end)
        return o.best_x, o.best

    def _local(
        self, x: Vector, f: float, reach: Vector, m: Measured | None = None
    ) -> Stage[tuple[Vector, float]]:
        """BFGS, followed by Newton's method in low dimensions."""
        o = self.oracle
        few = o.dim <= NEWTON and o.left >= FRUGAL * (o.dim + 1)
        stop = int((1 - BFGS) * o.left) if few else 0
        x, f = yield from local(o, x, f, reach, m, rng=self.rng, stop=stop)
        if few:
            x, f = yield from newton(o, x, f, reach)
        return x, f

    def _noisy(self, x: Vector, f: float, reach: Vector, sigma: float) -> Stage[None]:
        """Spend the rest by the kind of noise; then compare the answer with the start."""
        o = self.oracle
        o.answer = x, f
        noise = yield from look_at_noise(o, x, sigma * reach, self.rng)
        self.start.choose("noise", f"{noise.deviation:.2g}", str(noise))
        o.best, o.best_x, o.noise = np.inf, x, noise.deviation
        if noise.repeats:
            o.repeats, o.noise = True, 0.0
            yield from self._repeating(x, reach)
            return
        reserve = reserved(o)
        usual = 4 + int(3 * np.log(o.dim))
        f, known = noise.center, np.inf
        if noise.share < MILD:
            self._choose("filtering", f"noise is mild ({noise})")
            rest = int((1 - FILTER) * o.left)
            stop = rest if rest >= reserve + usual else reserve
            x, f, h = yield from filtering(o, x, f, reach, stop=stop)
            sigma, known = min(sigma, max(h, 1e-6)), f
        else:
            self._choose("smoothing", f"noise is loud ({noise})")
        n = LARGER * usual if noise.share > LOUD else usual
        spend = o.left - max(reserve, THREE)
        end, _ = yield from smoothing(
            o, x, sigma, reach, self.rng, spend=spend, until=0, population=n, known=known
        )
        point, f, deviation = yield from race(o, [self._origin, x, end])
        o.answer = point, f
        self.start.choose("noise", f"{deviation:.2g}", noise.at_the_end(deviation))

    def _repeating(self, x: Vector, reach: Vector) -> Stage[None]:
        """The deterministic descent with doubtful values evaluated again."""
        o = self.oracle
        yield from o.values(np.stack([x, self._origin]))
        o.answer = None
        yield from self._descend(o.best_x, o.best, reach)

    def _choose(self, method: str, why: str) -> None:
        self.start.choose("method", method, why)
