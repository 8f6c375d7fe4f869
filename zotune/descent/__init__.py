"""The descent that chooses everything by itself, from values alone, behind ask and tell.

What it does follows from the dimension d, the budget and the first values:

- fewer than five full blocks of d + 1 evaluations: random subspaces (``subspace``); noise is looked
  for where the first step gains far less than its differences predict;
- otherwise the start is asked again, for noise, and f is measured over a small and a large
  distance (``ruggedness``), on fewer coordinates where the budget covers fewer than thirty blocks
  (``looking``). Smooth functions are descended by quasi-Newton steps with a line search
  by values alone (``local``, ``linesearch``), in few dimensions followed by Newton's method
  (``newton``); rugged ones are smoothed first (``smoothing``). Where a descent has converged and
  budget is left, a wider search begins at the best point, and another descent after it;
- functions that are rounded, to single precision say, are measured over larger distances;
- noisy functions are descended by their kind of noise: with differences over larger distances where
  it is mild (``filtering``), by smoothing with larger populations where it is loud, and as
  deterministic ones with doubtful values asked again where only some values are outliers. The last
  tenth of the budget compares the answer with the start, which is kept unless the answer is better
  beyond doubt.

Every value is charged, and the best point is never forgotten. A value of inf or NaN is a rejected
point. Constants were chosen on one half of the suites of ``zotune bench blackbox``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from zotune.descent.filtering import ASKED, filtering
from zotune.descent.gradients import Measured
from zotune.descent.local import FRUGAL, local
from zotune.descent.looking import is_noisy, look
from zotune.descent.newton import newton
from zotune.descent.noise import FEWEST, FEWEST_LOOKS, RANKED, look_at_noise, race
from zotune.descent.oracle import Oracle, Points, Spent, Stage, Vector
from zotune.descent.smoothing import smoothing
from zotune.descent.subspace import subspace
from zotune.descent.units import Units

VERSION = 6
"""Of the points that are asked for. Raise it with every change that asks for others: values told to
one version mean nothing to another."""
STARTS = 3
"""Evaluations of a start that fails before there is none."""
SEVERAL = 5
"""Full blocks below which descent goes on in random subspaces."""
Q = 16
"""Directions of such a subspace."""
NEWTON, BFGS = 5, 0.6
"""Up to this dimension Newton's method follows BFGS, which has this share of the budget."""
SHARE, AGAIN = 0.75, 0.75
"""Shares of what is left that smoothing has on rugged functions, and after each convergence."""
MILD = 0.1
"""Noise of at most this share of the spread of values leaves differences something to tell."""
FILTER = 0.75
"""Share of what is left that differences may have under mild noise; smoothing has the rest."""
LARGER, LOUD = 3, 0.3
"""The population grows so many times where noise is more than this share of the spread."""
RESERVE, COMPARED = 0.1, 3 * (RANKED + 1)
"""Share of the budget that is kept to compare a noisy answer with the start; so many at least, as
ranks of three points need to be certain where one evaluation of each fails."""
TWO, THREE = 2 * FEWEST, 3 * FEWEST
"""Of a small budget a quarter is kept, or what two points need, or three."""
WORTH = 1 + 2 * FEWEST_LOOKS + ASKED + TWO
"""What one step under noise costs beside its differences; with less, noise is not looked for."""


class Descent:
    """Minimise by asking for points and being told their values.

    Args:
        x0: the start, (d,).
        budget: evaluations, never overspent.
        bounds: lower and upper bounds; points and probes stay inside.
        scale: how far coordinates may be expected to move; 1, or their size at the start, unless
            given. Where bounds are far narrower, they are the units of their coordinates.
        seed: of the directions that are drawn; any whole number.

    >>> d = Descent(np.ones(3), budget=200)
    >>> while not d.done:
    ...     d.tell([float(x @ x) for x in d.ask()])
    >>> d.best < 1e-10
    True
    """

    def __init__(
        self,
        x0: Any,
        budget: int,
        bounds: tuple[Vector, Vector] | None = None,
        *,
        scale: float | None = None,
        seed: int = 0,
    ) -> None:
        x = np.array(x0, dtype=np.float64)
        self._units = Units.of(x, bounds) if scale is None else None
        if self._units is not None:
            x, bounds = np.zeros_like(x), self._units.box
        self.oracle = Oracle(x, budget, bounds)
        self.rng = np.random.default_rng(seed % 2**64)
        self.scale = scale
        self.chosen: dict[str, str] = {}
        """What was chosen, and why."""
        self._origin = x
        self._points: Points | None = None
        self._stages = self._run(self.oracle.inside(x))
        self._advance(None)

    @property
    def done(self) -> bool:
        """Whether nothing is asked any more."""
        return self._points is None

    @property
    def x(self) -> Vector:
        """The best point; of a noisy function the answer so far."""
        x = self.oracle.best_x if self.oracle.answer is None else self.oracle.answer[0]
        return x if self._units is None else self._units.outside(x)

    @property
    def best(self) -> float:
        """The value there: the lowest that was told; of a noisy function as far as it is known."""
        return self.oracle.best if self.oracle.answer is None else self.oracle.answer[1]

    def ask(self) -> Points:
        """Points that may be evaluated side by side, (n, d)."""
        assert self._points is not None  # not done
        return self._points if self._units is None else self._units.outside(self._points)

    def tell(self, values: Any) -> None:
        """Their values, in order."""
        self._advance(np.asarray(values, dtype=np.float64))

    @np.errstate(over="ignore", invalid="ignore")  # of values near the largest number, or infinite
    def _advance(self, values: Vector | None) -> None:
        try:
            self._points = next(self._stages) if values is None else self._stages.send(values)
        except (StopIteration, Spent):
            self._points = None

    def _run(self, x: Vector) -> Stage[None]:
        """Everything, by the budget and by what is seen of the function."""
        o, rng = self.oracle, self.rng
        f = yield from o.value(x)
        for _ in range(STARTS - 1):  # a simulator that fails now and then may do so here
            if np.isfinite(f) or not o.left:
                break
            f = yield from o.value(x)
        reach = np.maximum(np.abs(x), self.scale or 1.0)
        self._origin = end = x
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
        """Look at the function first; descend, and search more widely where that has converged."""
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
            self._choose("quasi-Newton", f"the budget covers {o.budget // (o.dim + 1)} full blocks")
        elif rough.is_rugged:
            self._choose("smoothing", f"small and large differences disagree ({rough})")
            x, f = yield from self._wider(x, reach, SHARE)
            m = None
        else:
            self._choose("quasi-Newton", f"small and large differences agree ({rough})")
        with suppress(Spent):
            x, f = yield from self._local(x, f, reach, m)
            while o.repeats or not o.is_noisy:
                self.chosen["restarts"] = str(int(self.chosen.get("restarts", "0")) + 1)
                x, f = yield from self._wider(x, reach, AGAIN)
                x, f = yield from self._local(x, f, reach)
        return x, f

    def _wider(self, x: Vector, reach: Vector, share: float) -> Stage[tuple[Vector, float]]:
        """Smoothing with a share of what is left; the best point after it."""
        o = self.oracle
        spend = int(share * o.left)
        end, _ = yield from smoothing(o, x, 1.0, reach, self.rng, spend=spend, until=1e-3)
        if o.repeats:
            yield from o.value(end)
        return o.best_x, o.best

    def _local(
        self, x: Vector, f: float, reach: Vector, m: Measured | None = None
    ) -> Stage[tuple[Vector, float]]:
        """BFGS; in few dimensions Newton's method where that has spent its share."""
        o = self.oracle
        few = o.dim <= NEWTON and o.left >= FRUGAL * (o.dim + 1)
        stop = int((1 - BFGS) * o.left) if few else 0
        x, f = yield from local(o, x, f, reach, m, rng=self.rng, stop=stop)
        if few:
            x, f = yield from newton(o, x, f, reach)
        return x, f

    def _noisy(self, x: Vector, f: float, reach: Vector, sigma: float) -> Stage[None]:
        """What is left, by the kind of the noise; the answer is tested against the start."""
        o = self.oracle
        o.answer = x, f
        noise = yield from look_at_noise(o, x, sigma * reach, self.rng)
        self.chosen["noise"] = str(noise)
        o.best, o.best_x, o.noise = np.inf, x, noise.deviation
        if noise.repeats:
            o.repeats, o.noise = True, 0.0
            yield from self._repeating(x, reach)
            return
        reserve = max(int(RESERVE * o.left), min(COMPARED, max(o.left // 4, TWO)))
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
        o.answer, self.chosen["noise"] = (point, f), noise.at_the_end(deviation)

    def _repeating(self, x: Vector, reach: Vector) -> Stage[None]:
        """The descent of a deterministic function with every value confirmed."""
        o = self.oracle
        yield from o.values(np.stack([x, self._origin]))
        o.answer = None
        yield from self._descend(o.best_x, o.best, reach)

    def _choose(self, method: str, why: str) -> None:
        self.chosen |= {"method": method, "why": why}
