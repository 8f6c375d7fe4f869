"""The paper's theory as functions: errors and best steps, every theorem's bound, best blocks.

All of it follows from two moments of an estimate ĝ of the gradient g, for mu → 0 and relative to
‖g‖²: a = E gᵀĝ, with E ĝ = a·g, and e = E‖ĝ‖². For an L-smooth function the best step is a/(eL),
and it guarantees E f(x⁺) ≤ f(x) − p ‖g‖² / 2L with the progress p = a²/e. For Gaussian directions
p is q/(q+d+1) for ``avg`` and q/d for ``align``, and the general forms below become the paper's.

    strongly convex   E f(x_T) − f*  ≤ (f(x_0) − f*) Π (1 − (γ/L) p_t)
    convex            E f(x_T) − f*  ≤ (L ‖x_0 − x*‖² + 2 (f(x_0) − f*)) / (2 Σ p_t)
    the same, accelerated (``nesterov``), ω = 1/p: 4ω² ((1 − 1/ω)(f(x_0) − f*) + L ‖x_0 − x*‖²/2)
                      / (T + 2ω − 1)²
    non-convex        min E‖∇f(x_t)‖² ≤ 2L (f(x_0) − f*) / Σ p_t
    stochastic convex E f(x̄_T) − f*  ≤ (‖x_0 − x*‖² + 2σ² Σ η_t² e_t) / Σ η_t a_t

The paper's best allocation counts directions. ``best_block`` takes the cost of a step from the
budget, so that it works for evaluations as well.

Lin, Song, Xu: The Multi-Query Paradox in Zeroth-Order Optimization, sections 3 and 4.
"""

from zotune.theory.allocations import Allocation
from zotune.theory.block_sizes import (
    best_block,
    best_stochastic_block,
    closed_form_block,
    geometric,
    search_block,
)
from zotune.theory.bounds import (
    accelerated_bound,
    best_stochastic_step,
    convex_bound,
    least_stochastic_bound,
    log_contraction,
    nonconvex_bound,
    stochastic_bound,
    stochastic_cap,
    strongly_convex_bound,
)
from zotune.theory.methods import (
    CONVEX,
    EQUAL,
    NONCONVEX,
    REGIMES,
    STOCHASTIC,
    STRONGLY_CONVEX,
    Estimation,
    method,
)

__all__ = [
    "CONVEX",
    "EQUAL",
    "NONCONVEX",
    "REGIMES",
    "STOCHASTIC",
    "STRONGLY_CONVEX",
    "Allocation",
    "Estimation",
    "accelerated_bound",
    "best_block",
    "best_stochastic_block",
    "best_stochastic_step",
    "closed_form_block",
    "convex_bound",
    "geometric",
    "least_stochastic_bound",
    "log_contraction",
    "method",
    "nonconvex_bound",
    "search_block",
    "stochastic_bound",
    "stochastic_cap",
    "strongly_convex_bound",
]
