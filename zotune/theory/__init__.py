"""The paper's theory as functions: errors and best steps, every theorem's bound, best blocks.

All of it follows from two moments of an estimate ĝ of the gradient g, for mu → 0 and relative to
‖g‖²: a = E gᵀĝ, with E ĝ = a·g, and e = E‖ĝ‖². For an L-smooth function the best step is a/(eL),
and it guarantees E f(x⁺) ≤ f(x) − p ‖g‖² / 2L with the progress p = a²/e. For Gaussian directions
p is q/(q+d+1) for ``avg`` and q/d for ``align``, and the general forms below become the paper's.

    strongly convex   E f(x_T) − f*  ≤ (f(x_0) − f*) Π (1 − (γ/L) p_t)
    convex            E f(x_T) − f*  ≤ (L ‖x_0 − x*‖² + 2 (f(x_0) − f*)) / (2 Σ p_t)
    non-convex        min E‖∇f(x_t)‖² ≤ 2L (f(x_0) − f*) / Σ p_t
    stochastic convex E f(x̄_T) − f*  ≤ (‖x_0 − x*‖² + 2σ² Σ η_t² e_t) / Σ η_t a_t

The paper's best allocation charges directions. ``best_block`` takes the cost of a step from the
budget, so charging every evaluation is the same question with another cost.

Lin, Song, Xu: The Multi-Query Paradox in Zeroth-Order Optimization, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import ceil, exp, floor, inf, isclose, log, log1p, sqrt

from zotune.core.budget import Budget, Ledger
from zotune.directions import DIRECTIONS, Directions
from zotune.errors import ConfigError
from zotune.estimators import ESTIMATORS, Estimator, Moments, require_possible
from zotune.objectives import positive_int

STRONGLY_CONVEX, CONVEX, NONCONVEX = "strongly-convex", "convex", "nonconvex"
STOCHASTIC = "stochastic"
REGIMES = {
    STRONGLY_CONVEX: "E f(x_T) − f*",
    CONVEX: "E f(x_T) − f*",
    NONCONVEX: "min E‖∇f(x_t)‖²",
    STOCHASTIC: "E f(x̄_T) − f*",
}
"""What the theorem of each regime bounds."""
EQUAL = 1e-9
"""Relative differences up to this are taken for rounding."""


@dataclass(frozen=True)
class Method:
    """An estimator with its directions in d dimensions: all that the theory asks about.

    >>> avg, align = method("avg", 1000), method("align", 1000)
    >>> avg.mse(1), align.mse(250)
    (1001.0, 0.75)
    >>> align.step(250, L=4.0)
    0.25
    """

    estimator: Estimator
    directions: Directions
    dim: int

    def moments(self, q: int) -> Moments:
        """a and e of an estimate from q directions."""
        assert self.estimator.moments is not None  # method() has checked it
        require_possible(self.estimator, self.directions, positive_int("q", q), self.dim)
        return self.estimator.moments(self.directions, q, self.dim)

    def mse(self, q: int) -> float:
        """E‖ĝ − g‖² / ‖g‖² = e − 2a + 1."""
        return self.moments(q).mse

    def step(self, q: int, *, L: float = 1.0) -> float:
        """a/(eL), the step with the largest guaranteed decrease of an L-smooth function."""
        return self.moments(q).step / L

    def progress(self, q: int) -> float:
        """p = a²/e, 2L/‖g‖² times that decrease; 1 is what the gradient itself would do."""
        return self.moments(q).progress


def method(estimator: str, dim: int, directions: str = "gaussian") -> Method:
    """The method of these names; an estimator without moments has no theory."""
    entry = ESTIMATORS[estimator]
    if entry.moments is None:
        raise ConfigError(
            f"estimator {estimator!r} declares no moments, so nothing is known of it; "
            "register it with moments"
        )
    return Method(entry, DIRECTIONS[directions], positive_int("dim", dim))


@dataclass(frozen=True)
class Allocation:
    """The sizes q_0 … q_{T−1} of a run's blocks, as runs of equal ones.

    >>> Allocation.of([5, 5, 5, 2])
    Allocation(runs=((5, 3), (2, 1)))
    >>> from zotune.core.differences import get_difference
    >>> Allocation.constant(5, Budget(20, "evaluations", get_difference("forward")))
    Allocation(runs=((5, 3), (1, 1)))
    """

    runs: tuple[tuple[int, int], ...]
    """(q, how many steps in a row), in order."""

    @classmethod
    def of(cls, blocks: Iterable[int]) -> Allocation:
        """The allocation of a sequence of block sizes."""
        return cls(tuple((q, len(list(same))) for q, same in groupby(blocks)))

    @classmethod
    def constant(cls, q: int, budget: Budget) -> Allocation:
        """Blocks of q until the budget is spent; the last one shrinks to what is left."""
        times = budget.limit // budget.cost(q)
        spent = Ledger(times * q, times * budget.difference.evaluations(q))
        rest = budget.block(spent, q)
        return cls(tuple(run for run in ((q, times), (rest, 1)) if 0 not in run))

    @property
    def steps(self) -> int:
        """T."""
        return sum(times for _, times in self.runs)

    @property
    def queries(self) -> int:
        """Σ q_t."""
        return sum(q * times for q, times in self.runs)

    def total(self, value: Callable[[int], float]) -> float:
        """Σ value(q_t)."""
        return sum(times * value(q) for q, times in self.runs)

    def decayed(self, value: Callable[[int], float], power: float) -> float:
        """Σ value(q_t) / (t + 1)^power."""
        return sum(value(q) * _decay(start, stop, power) for q, start, stop in self.spans())

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """Each q with the steps it is used in, from and up to."""
        start = 0
        for q, times in self.runs:
            yield q, start, start + times
            start += times


def _decay(start: int, stop: int, power: float) -> float:
    """Σ (t + 1)^−power over start ≤ t < stop; Euler and Maclaurin's formula past t = 32."""
    split = min(stop, max(start, 32))
    head: float = sum((t + 1.0) ** -power for t in range(start, split))
    return head + _tail(split + 1.0, float(stop), power) if split < stop else head


def _tail(first: float, last: float, power: float) -> float:
    """Σ n^−power over first ≤ n ≤ last, by the integral and the derivatives at its ends."""
    r = 1 - power
    area = log(last / first) if r == 0 else (last**r - first**r) / r
    ends = (first**-power + last**-power) / 2
    slopes = power * (first ** (-power - 1) - last ** (-power - 1))
    bends = power * (power + 1) * (power + 2) * (first ** (-power - 3) - last ** (-power - 3))
    total: float = area + ends + slopes / 12 - bends / 720
    return total


def log_contraction(method: Method, allocation: Allocation, *, condition: float) -> float:
    """Σ log(1 − p_t / condition), with condition = L/γ: the logarithm of the strongly convex rate.

    >>> log_contraction(method("align", 10), Allocation.of([10, 10]), condition=2.0) / log(0.5)
    2.0
    """
    if not condition >= 1:
        raise ConfigError(f"the condition L/gamma must be at least 1, got {condition!r}")
    return allocation.total(lambda q: _log1m(method.progress(q) / condition))


def _log1m(x: float) -> float:
    """log(1 − x), exact for the smallest x and −∞ from 1 on."""
    return log1p(-x) if x < 1 else -inf


def strongly_convex_bound(
    method: Method, allocation: Allocation, *, L: float, gamma: float, gap: float
) -> float:
    """The bound on E f(x_T) − f* at the best steps: gap · Π (1 − (γ/L) p_t).

    ``avg``: 1 − γ q_t / (L (q_t + d + 1)) each step (theorem 4.2). ``align``: 1 − γ q_t / (L d)
    (theorem 4.3). Any function with ‖∇f‖² ≥ 2γ (f − f*) will do.

    Args:
        method: estimator, directions and d.
        allocation: the blocks q_t.
        L: Lipschitz constant of the gradient.
        gamma: γ, strong convexity, at most L.
        gap: f(x_0) − f*.

    >>> align = method("align", 10)
    >>> round(strongly_convex_bound(align, Allocation.of([10, 5]), L=1.0, gamma=0.5, gap=8.0), 12)
    3.0
    """
    return gap * exp(log_contraction(method, allocation, condition=L / gamma))


def convex_bound(
    method: Method, allocation: Allocation, *, L: float, distance: float, gap: float
) -> float:
    """The bound on E f(x_T) − f* at the best steps: (L distance² + 2 gap) / (2 Σ p_t).

    ``avg``: theorem 4.4. ``align``: Σ p_t = Σ q_t / d, whatever the allocation (theorem 4.5).
    Where there is no minimiser the same number bounds E f(x_T) − f(z) for any z, with
    distance = ‖x_0 − z‖ and gap = f(x_0) − inf f.

    Args:
        method: estimator, directions and d.
        allocation: the blocks q_t.
        L: Lipschitz constant of the gradient.
        distance: ‖x_0 − x*‖.
        gap: f(x_0) − f*.

    >>> convex_bound(method("align", 10), Allocation.of([10, 5, 5]), L=2.0, distance=1.0, gap=1.0)
    1.0
    """
    return (L * distance**2 + 2 * gap) / (2 * allocation.total(method.progress))


def nonconvex_bound(method: Method, allocation: Allocation, *, L: float, gap: float) -> float:
    """The bound on the least E‖∇f(x_t)‖², t < T, at the best steps: 2L gap / Σ p_t.

    ``avg``: theorem 4.6. ``align``: 2 L d gap / Σ q_t, whatever the allocation (theorem 4.7).

    Args:
        method: estimator, directions and d.
        allocation: the blocks q_t.
        L: Lipschitz constant of the gradient.
        gap: f(x_0) − f*.

    >>> nonconvex_bound(method("align", 10), Allocation.of([10, 5, 5]), L=2.0, gap=1.0)
    2.0
    """
    return 2 * L * gap / allocation.total(method.progress)


def stochastic_bound(
    method: Method,
    allocation: Allocation,
    *,
    eta0: float,
    L: float,
    distance: float,
    noise: float,
    rescaled: bool = False,
) -> float:
    """The bound on E f(x̄_T) − f* at steps η_t = eta0/√(t+1).

    (distance² + 2 noise² Σ η_t² e_t) / Σ η_t a_t, for the average x̄_T of x_0 … x_{T−1} with
    weights η_t a_t. ``avg`` is theorem 4.10, ``align`` theorem 4.11. Holds for eta0 up to
    ``stochastic_cap``.

    Args:
        method: estimator, directions and d.
        allocation: the blocks q_t.
        eta0: η_0.
        L: Lipschitz constant of the gradient of every F(·, ξ); E‖∇F(x, ξ) − ∇F(x*, ξ)‖² ≤
            2L (f(x) − f*) is enough.
        distance: ‖x_0 − x*‖.
        noise: σ, the root of E‖∇F(x*, ξ)‖².
        rescaled: whether η_t also follows the best step of its block, as in a run, whose last
            block may shrink; makes no difference to ``align``, nor where all blocks are equal.

    >>> align = method("align", 10)
    >>> stochastic_bound(align, Allocation.of([10]), eta0=0.25, L=1.0, distance=1.0, noise=2.0)
    6.0
    """
    cap = stochastic_cap(method, allocation, L=L, rescaled=rescaled)
    if not 0 < eta0 <= cap * (1 + EQUAL):
        raise ConfigError(
            f"the stochastic bound holds for 0 < eta0 ≤ {cap:g} with these blocks, got {eta0!r}; "
            "lower eta0"
        )
    scale = _scale(method, allocation, rescaled)
    weight = allocation.decayed(lambda q: scale(q) * method.moments(q).alignment, 0.5)
    noisy = 2 * (noise * eta0) ** 2 * _energy(method, allocation, scale)
    return (distance**2 + noisy) / (eta0 * weight)


def stochastic_cap(
    method: Method, allocation: Allocation, *, L: float, rescaled: bool = False
) -> float:
    """The largest eta0 with η_t ≤ a_t / (4 L e_t) at every step.

    A block of its own size may take a larger step than one direction may. The paper's q = 1 for
    ``avg`` follows only where all q share the cap of q = 1, 1/(4L(d+2)).

    >>> stochastic_cap(method("avg", 6), Allocation.of([1]), L=1.0)
    0.03125
    """
    scale = _scale(method, allocation, rescaled)
    return min(method.step(q, L=4 * L) / scale(q) * sqrt(t + 1) for q, t, _ in allocation.spans())


def best_stochastic_step(
    method: Method,
    allocation: Allocation,
    *,
    L: float,
    distance: float,
    noise: float,
    rescaled: bool = False,
) -> float:
    """The eta0 that makes the stochastic bound least: distance / (noise √(2 Σ e_t/(t+1))), capped.

    >>> align = method("align", 10)
    >>> best_stochastic_step(align, Allocation.of([10]), L=1.0, distance=1.0, noise=0.0)
    0.25
    """
    cap = stochastic_cap(method, allocation, L=L, rescaled=rescaled)
    energy = _energy(method, allocation, _scale(method, allocation, rescaled))
    return cap if noise == 0 else min(cap, distance / (noise * sqrt(2 * energy)))


def least_stochastic_bound(
    method: Method, allocation: Allocation, *, L: float, distance: float, noise: float
) -> tuple[float, float]:
    """The best eta0 and its bound, with steps rescaled as in a run.

    >>> align = method("align", 10)
    >>> least_stochastic_bound(align, Allocation.of([10]), L=1.0, distance=1.0, noise=0.0)
    (0.25, 4.0)
    """
    known = {"L": L, "distance": distance, "noise": noise}
    eta0 = best_stochastic_step(method, allocation, **known, rescaled=True)
    return eta0, stochastic_bound(method, allocation, eta0=eta0, **known, rescaled=True)


def _scale(method: Method, allocation: Allocation, rescaled: bool) -> Callable[[int], float]:
    """η_t √(t+1) / η_0 by the size of the block."""
    first = method.step(allocation.runs[0][0])
    return lambda q: method.step(q) / first if rescaled else 1.0


def _energy(method: Method, allocation: Allocation, scale: Callable[[int], float]) -> float:
    """Σ (η_t / η_0)² e_t."""
    return allocation.decayed(lambda q: scale(q) ** 2 * method.moments(q).energy, 1.0)


def best_block(method: Method, budget: Budget) -> int:
    """The q ≤ d that makes most progress for its cost: the best block of a long run.

    Maximises p(q) / cost(q), which is best for a budget of many steps in the convex and non-convex
    regimes, and in the strongly convex one up to O(γ/L). With few steps it matters how well they
    fill the budget; ``zotune.plan`` compares whole allocations. Where every q is as good
    (``align``, charged by directions) it is d, which the strongly convex regime prefers strictly.
    In closed form where ``closed_form_block`` has one, by search elsewhere.

    >>> from zotune.core.differences import get_difference
    >>> directions = Budget(20000, "directions", get_difference("forward"))
    >>> evaluations = Budget(20000, "evaluations", get_difference("forward"))
    >>> best_block(method("avg", 1000), directions), best_block(method("align", 1000), directions)
    (1, 1000)
    >>> best_block(method("avg", 1000), evaluations), best_block(method("align", 1000), evaluations)
    (32, 1000)
    """

    def value(q: int) -> float:
        return method.progress(q) / budget.cost(q)

    exact = closed_form_block(method, budget)
    if exact is None:
        return search_block(value, method.dim)
    return max({min(max(1, q), method.dim) for q in (floor(exact), ceil(exact))}, key=value)


def closed_form_block(method: Method, budget: Budget) -> float | None:
    """Where p(q)/cost(q) is largest for real q, or None where no formula is known.

    A step costs α q + β. For independent directions p = q/(q+s), so q = √(β s / α): with forward
    differences and every evaluation charged √(d+1) for Gaussian directions and √(d−1) for others
    of norm √d; 0, hence one direction, where a step costs nothing besides its directions. Where p
    grows like q it is d.
    """
    d, first, last = method.dim, method.progress(1), method.progress(method.dim)
    if isclose(d * first, last, rel_tol=EQUAL):
        return float(d)
    spread = 1 / first - 1
    if not isclose(d * (1 / last - 1), spread, rel_tol=EQUAL):
        return None
    each = budget.cost(2) - budget.cost(1)
    return sqrt((budget.cost(1) - each) * spread / each)


def best_stochastic_block(
    method: Method, budget: Budget, *, L: float = 1.0, distance: float = 1.0, noise: float
) -> int:
    """The q ≤ d with the least stochastic bound, each q at its own best eta0; by search.

    >>> from zotune.core.differences import get_difference
    >>> budget = Budget(20000, "directions", get_difference("forward"))
    >>> best_stochastic_block(method("align", 1000), budget, noise=0.0)
    1000
    """

    def value(q: int) -> float:
        allocation = Allocation.constant(q, budget)
        return -least_stochastic_bound(method, allocation, L=L, distance=distance, noise=noise)[1]

    return search_block(value, budget.block(Ledger(), method.dim))


def search_block(value: Callable[[int], float], most: int) -> int:
    """The q from 1 to ``most`` with the largest value; of equals, the largest.

    Every q is tried where there are at most 257. Beyond, a geometric grid is narrowed around its
    best; the rate of a budget has a tooth wherever steps fill it, and one may be passed by that is
    higher, by 0.03 % at most in 900 random cases of 260 to 2000 block sizes.

    >>> search_block(lambda q: -((q - 31) ** 2), 1000), search_block(lambda q: 1.0, 1000)
    (31, 1000)
    """
    low, high = 1, most
    while True:
        grid = geometric(low, high, points=257)
        values = [value(q) for q in grid]
        top = max(values)
        at = max(i for i, v in enumerate(values) if isclose(v, top, rel_tol=EQUAL))
        if len(grid) == high - low + 1:
            return grid[at]
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]


def geometric(low: int, high: int, points: int = 33) -> list[int]:
    """Whole numbers from low to high, evenly spaced on a logarithmic scale as far as they can be.

    >>> geometric(1, 100, points=5)
    [1, 3, 10, 32, 100]
    """
    if high - low < points:
        return list(range(low, high + 1))
    ratio = high / low
    return sorted({round(low * ratio ** (k / (points - 1))) for k in range(points)})
