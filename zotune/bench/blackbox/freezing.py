"""Reference minima: known optima, or the lowest value that anything found."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from zotune.bench.blackbox.coco import optimum
from zotune.bench.blackbox.counting import Counter, Vector
from zotune.bench.blackbox.judging import quiet, run
from zotune.bench.blackbox.problems import BlackboxProblem, plain, problems, require
from zotune.bench.blackbox.solvers import SOLVERS

GRADIENTS = 100
"""Iterations with exact gradients that polish the best point of all solvers."""


def freeze(
    suite: str,
    dims: Sequence[int] | None,
    path: Path,
    *,
    on_case: Callable[[str], None] = lambda case: None,
) -> dict[str, float]:
    """Add the reference minima of a suite to a file; problems that have one there keep it."""
    frozen: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}
    known = frozen.setdefault(suite, {})
    for problem in problems(suite, dims):
        if problem.minimum is None and problem.name not in known:
            on_case(problem.name)
            found = known_optimum(problem) if suite == "largescale" else lowest(problem)
            known[problem.name] = found
            path.write_text(json.dumps(frozen, indent=1, sort_keys=True) + "\n")
    return known


def known_optimum(problem: BlackboxProblem) -> float:
    """f at COCO's own optimum."""
    with problem.opened() as (function, _):
        return optimum(function)


def lowest(problem: BlackboxProblem) -> float:
    """The lowest value that any solver finds, polished with exact gradients.

    The polish starts from the best point of all solvers and from the problem's own start.
    """
    with problem.opened() as (function, _):
        everything = Counter(function, budget=sys.maxsize)
        watched = replace(problem, opened=plain(everything))
        for solver in SOLVERS.values():
            if solver.runs_on("", problem.dim):
                run(watched, solver, minimum=0.0)
        if problem.gradient is not None:
            for start in (everything.best_x, problem.start):
                polish(everything, start, problem.gradient)
    return everything.best


def polish(f: Counter, start: Vector | None, gradient: Callable[[Vector], Vector]) -> None:
    """Descend with exact gradients, for the values that this leaves in the counter."""
    optimize = require("scipy.optimize")
    for method, limits in (("BFGS", {"gtol": 0}), ("L-BFGS-B", {"ftol": 0, "gtol": 0})):
        with quiet(), suppress(Exception):  # of someone else's function, far from its start
            options = limits | {"maxiter": GRADIENTS}
            optimize.minimize(f, start, jac=gradient, method=method, options=options)
