"""The bound of every theorem, as a function of the method and the allocation."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, log1p, sqrt

from zotune.errors import ConfigError
from zotune.theory.allocations import Allocation
from zotune.theory.methods import EQUAL, Estimation


def log_contraction(method: Estimation, allocation: Allocation, *, condition: float) -> float:
    """Σ log(1 − p_t / condition), with condition = L/γ: the logarithm of the strongly convex rate.

    >>> from math import log
    >>> from zotune.theory import method
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
    method: Estimation, allocation: Allocation, *, L: float, gamma: float, gap: float
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

    >>> from zotune.theory import method
    >>> align = method("align", 10)
    >>> round(strongly_convex_bound(align, Allocation.of([10, 5]), L=1.0, gamma=0.5, gap=8.0), 12)
    3.0
    """
    return gap * exp(log_contraction(method, allocation, condition=L / gamma))


def convex_bound(
    method: Estimation, allocation: Allocation, *, L: float, distance: float, gap: float
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

    >>> from zotune.theory import method
    >>> convex_bound(method("align", 10), Allocation.of([10, 5, 5]), L=2.0, distance=1.0, gap=1.0)
    1.0
    """
    return (L * distance**2 + 2 * gap) / (2 * allocation.total(method.progress))


def accelerated_bound(
    method: Estimation, q: int, steps: int, *, L: float, distance: float, gap: float
) -> float:
    """The bound on E f(x_T) − f* of ``update: nesterov`` at the best steps, for convex functions.

    4ω² ((1 − 1/ω) gap + L distance²/2) / (T + 2ω − 1)² with ω = 1/p, as for random blocks of
    coordinates (Fercoq, Richtárik 2015). ``align``: ω = d/q, so that for T = K/q the bound hardly
    depends on q.

    Args:
        method: estimator, directions and d.
        q: directions a step.
        steps: T, all of them of q directions.
        L: Lipschitz constant of the gradient.
        distance: ‖x_0 − x*‖.
        gap: f(x_0) − f*.

    >>> from zotune.theory import method
    >>> align = method("align", 10)
    >>> known = {"L": 1.0, "distance": 1.0, "gap": 0.5}
    >>> [round(accelerated_bound(align, q, 1000 // q, **known), 6) for q in (1, 10)]
    [0.000366, 0.000196]
    """
    omega = 1 / method.progress(q)
    start = (1 - 1 / omega) * gap + L * distance**2 / 2
    return 4 * omega**2 * start / (steps + 2 * omega - 1) ** 2


def nonconvex_bound(method: Estimation, allocation: Allocation, *, L: float, gap: float) -> float:
    """The bound on the least E‖∇f(x_t)‖², t < T, at the best steps: 2L gap / Σ p_t.

    ``avg``: theorem 4.6. ``align``: 2 L d gap / Σ q_t, whatever the allocation (theorem 4.7).

    Args:
        method: estimator, directions and d.
        allocation: the blocks q_t.
        L: Lipschitz constant of the gradient.
        gap: f(x_0) − f*.

    >>> from zotune.theory import method
    >>> nonconvex_bound(method("align", 10), Allocation.of([10, 5, 5]), L=2.0, gap=1.0)
    2.0
    """
    return 2 * L * gap / allocation.total(method.progress)


def stochastic_bound(
    method: Estimation,
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

    >>> from zotune.theory import method
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
    method: Estimation, allocation: Allocation, *, L: float, rescaled: bool = False
) -> float:
    """The largest eta0 with η_t ≤ a_t / (4 L e_t) at every step.

    A block of its own size may take a larger step than one direction may. The paper's q = 1 for
    ``avg`` follows only where all q share the cap of q = 1, 1/(4L(d+2)).

    >>> from zotune.theory import method
    >>> stochastic_cap(method("avg", 6), Allocation.of([1]), L=1.0)
    0.03125
    """
    scale = _scale(method, allocation, rescaled)
    return min(method.step(q, L=4 * L) / scale(q) * sqrt(t + 1) for q, t, _ in allocation.spans())


def best_stochastic_step(
    method: Estimation,
    allocation: Allocation,
    *,
    L: float,
    distance: float,
    noise: float,
    rescaled: bool = False,
) -> float:
    """The eta0 that makes the stochastic bound least: distance / (noise √(2 Σ e_t/(t+1))), capped.

    >>> from zotune.theory import method
    >>> align = method("align", 10)
    >>> best_stochastic_step(align, Allocation.of([10]), L=1.0, distance=1.0, noise=0.0)
    0.25
    """
    cap = stochastic_cap(method, allocation, L=L, rescaled=rescaled)
    energy = _energy(method, allocation, _scale(method, allocation, rescaled))
    return cap if noise == 0 else min(cap, distance / (noise * sqrt(2 * energy)))


def least_stochastic_bound(
    method: Estimation, allocation: Allocation, *, L: float, distance: float, noise: float
) -> tuple[float, float]:
    """The best eta0 and its bound, with steps rescaled as in a run.

    >>> from zotune.theory import method
    >>> align = method("align", 10)
    >>> least_stochastic_bound(align, Allocation.of([10]), L=1.0, distance=1.0, noise=0.0)
    (0.25, 4.0)
    """
    known = {"L": L, "distance": distance, "noise": noise}
    eta0 = best_stochastic_step(method, allocation, **known, rescaled=True)
    return eta0, stochastic_bound(method, allocation, eta0=eta0, **known, rescaled=True)


def _scale(method: Estimation, allocation: Allocation, rescaled: bool) -> Callable[[int], float]:
    """η_t √(t+1) / η_0 by the size of the block."""
    first = method.step(allocation.runs[0][0])
    return lambda q: method.step(q) / first if rescaled else 1.0


def _energy(method: Estimation, allocation: Allocation, scale: Callable[[int], float]) -> float:
    """Σ (η_t / η_0)² e_t."""
    return allocation.decayed(lambda q: scale(q) ** 2 * method.moments(q).energy, 1.0)
