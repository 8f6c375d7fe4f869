"""``method=zotune.scipy`` for ``scipy.optimize.minimize``."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from zotune.errors import ConfigError
from zotune.runs.minimize import minimize
from zotune.runs.stopping import ASKED

BUDGETS = ("budget", "maxfev", "maxfun")
"""Options that say how often the function may be called: ours, and those of SciPy's methods."""
BY_CALLBACK = 99
"""SciPy's status of a run that its callback has ended."""


def scipy(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    callback: Callable[..., Any] | None = None,
    **options: Any,
) -> Any:
    """Minimise as ``zotune.minimize`` does, called by ``scipy.optimize.minimize``.

    ``options`` needs a ``budget`` (or ``maxfev``, ``maxfun``), which is never exceeded, and takes
    the other arguments of ``zotune.minimize``: ``failures``, ``target``, ``seconds``,
    ``checkpoint``, ``workers``, …. ``tol`` is its ``ftol``, and ``disp`` its ``progress``. The
    callback is called about sixteen times, see ``report_every``, with the lowest value so far; it
    ends the run by StopIteration. Derivatives are not used. The result also has ``run``, the
    ``zotune.Run``; ``status`` is 0 for a success, 99 if the callback ended it, else 1.

    >>> from scipy.optimize import minimize, rosen
    >>> import zotune
    >>> res = minimize(rosen, [-1.2, 1.0], method=zotune.scipy, options={"budget": 200})
    >>> bool(res.fun < 1e-6), res.nfev <= 200, res.success
    (True, True, True)
    """
    from scipy.optimize import OptimizeResult

    if not (constraints is None or (isinstance(constraints, list | tuple) and not constraints)):
        raise ConfigError(
            "zotune.scipy takes no constraints, only bounds; add a penalty to the function, return "
            "inf where it is infeasible, or use method='COBYQA'"
        )
    if any(callable(given) or given for given in (jac, hess, hessp)):
        message = "zotune.scipy does not use derivatives (jac, hess, hessp); leave them out"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    lowest = Lowest(fun, args)
    run = minimize(
        lowest,
        np.array(x0, dtype=float),
        bounds=_sides(bounds),
        on_report=None if callback is None else lowest.reporter(callback),
        array="numpy",
        **_arguments(options),
    )
    by_callback = run.message.startswith(ASKED)
    return OptimizeResult(
        x=run.best_x.numpy(),
        fun=run.best_loss,
        nfev=run.nfev,
        success=run.success,
        status=BY_CALLBACK if by_callback else int(not run.success),
        message=run.message.replace(ASKED, "`callback` raised `StopIteration`", 1),
        run=run,
    )


class Lowest:
    """Calls a function of SciPy's form, and keeps the point of its lowest value."""

    def __init__(self, fun: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.fun, self.args = fun, args
        self.x: Any = None
        self.value = math.inf
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        """The value at x; the function gets an array of its own."""
        self.calls += 1
        value = self.fun(np.array(x), *self.args)
        size = np.size(value)
        if size == 1 and float(np.reshape(value, ())) < self.value:
            self.x, self.value = np.array(x), float(np.reshape(value, ()))
        return value

    def reporter(self, callback: Callable[..., Any]) -> Callable[[dict[str, Any]], None]:
        """An ``on_report`` that calls a callback as SciPy does, by its parameter's name."""
        from scipy.optimize import OptimizeResult

        try:
            whole = {*inspect.signature(callback).parameters} == {"intermediate_result"}
        except (TypeError, ValueError):
            whole = False

        def report(row: dict[str, Any]) -> None:
            if whole:
                found = OptimizeResult(x=np.array(self.x), fun=self.value, nfev=self.calls)
                callback(intermediate_result=found)
            else:
                callback(np.array(self.x))

        return report


def _arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of SciPy's as arguments of ``minimize``."""
    told = dict(options)
    budgets = [told.pop(key) for key in BUDGETS if key in told]
    if len(budgets) != 1:
        raise ConfigError(
            f"zotune.scipy needs one budget, got {len(budgets)}; give options={{'budget': 200}}, "
            "the number of calls of the function"
        )
    tol, disp = told.pop("tol", None), told.pop("disp", None)
    told |= {} if tol is None else {"ftol": tol}
    return {"budget": budgets[0], "progress": bool(disp)} | told


def _sides(bounds: Any) -> Any:
    """SciPy's bounds, pairs with None for no bound, as (low, high)."""
    if bounds is None or hasattr(bounds, "lb"):
        return bounds
    pairs = [tuple(pair) for pair in bounds]
    low = [-math.inf if a is None else float(a) for a, _ in pairs]
    return low, [math.inf if b is None else float(b) for _, b in pairs]
