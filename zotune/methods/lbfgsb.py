"""SciPy's L-BFGS-B, as a baseline."""

from __future__ import annotations

from zotune.methods import register
from zotune.methods.external import Calls, solved
from zotune.methods.start import Stage, Start


@register(
    "lbfgsb",
    formula="scipy.optimize.minimize(method='L-BFGS-B')",
    rejects_failures=False,
    packages=("scipy",),
)
def lbfgsb(start: Start) -> Stage[str]:
    """SciPy's L-BFGS-B with its own defaults, on one-sided differences; a baseline."""

    def solve(f: Calls) -> str:
        from scipy.optimize import Bounds, minimize

        bounds = None if start.bounds is None else Bounds(*start.bounds)
        options = {"maxfun": 10**9, "maxiter": 10**9, "workers": f.map}
        found = minimize(f, start.x, method="L-BFGS-B", bounds=bounds, options=options)
        return str(found.message)

    return (yield from solved(solve, start))
