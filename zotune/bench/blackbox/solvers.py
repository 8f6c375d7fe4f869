"""The solvers that are compared; each spends its evaluations and returns its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import zotune
from zotune.bench.blackbox.counting import Function, Vector
from zotune.bench.blackbox.problems import BlackboxProblem, require

Answer = Vector | None
Solve = Callable[[Function, BlackboxProblem], Answer]


@dataclass(frozen=True)
class Solver:
    """A way to spend a budget of evaluations."""

    name: str
    solve: Solve
    largest: int | None = None
    """The largest dimension at which it is run; beyond, its own algebra takes hours."""
    suites: tuple[str, ...] = ()
    """The suites that it is run on; all unless given."""

    def runs_on(self, suite: str, dim: int) -> bool:
        """Whether it is run on problems of a suite and a dimension."""
        small = self.largest is None or dim <= self.largest
        return small and (not self.suites or suite in self.suites)


def minimize(f: Function, problem: BlackboxProblem, **settings: Any) -> Answer:
    """``zotune.minimize`` with every evaluation charged; its answer is the best point it saw."""
    run = zotune.minimize(
        lambda x: f(x.numpy()),
        x0=problem.start,
        budget=problem.budget,
        count="evaluations",
        **settings,
    )
    return run.best_x.numpy().astype(np.float64)


def default(f: Function, problem: BlackboxProblem) -> Answer:
    """zotune with nothing said but the budget and the problem's bounds."""
    return minimize(f, problem, bounds=problem.bounds)


def full_blocks(f: Function, problem: BlackboxProblem) -> Answer:
    """The instrument: ``align`` with q = d, or what the budget allows, and the theory's step."""
    q = min(problem.dim, problem.budget - 1)
    return minimize(f, problem, estimator="align", q=q, update="sgd", step="theory")


def scipy(method: str, **options: Any) -> Solve:
    """A method of ``scipy.optimize.minimize`` that stops for its budget or its last digits."""

    def solve(f: Function, problem: BlackboxProblem) -> Answer:
        optimize = require("scipy.optimize")
        limits = {key: value(problem) for key, value in options.items()}
        if problem.difference is not None and method in BY_DIFFERENCES:
            limits["eps"] = problem.difference
        box = None if problem.bounds is None else [problem.bounds] * problem.dim
        found = optimize.minimize(f, problem.start, method=method, bounds=box, options=limits)
        return np.asarray(found.x, dtype=np.float64)

    return solve


def cma_es(f: Function, problem: BlackboxProblem) -> Answer:
    """CMA-ES; with a diagonal covariance at d ≥ 500, where the full one costs more than f."""
    cma = require("cma")
    spread = 0.3 * (1 + float(np.abs(problem.start).max()))
    options = {
        "maxfevals": problem.budget,
        "seed": 1,
        "verbose": -9,
        "CMA_diagonal": problem.dim >= 500,
        "tolfun": 0,
        "tolfunhist": 0,
        "bounds": [None, None] if problem.bounds is None else list(problem.bounds),
    }
    deviation = problem.deviation or spread
    strategy = cma.CMAEvolutionStrategy(list(problem.start), deviation, options)
    while not strategy.stop():
        points = strategy.ask()
        strategy.tell(points, [f(np.asarray(x)) for x in points])
    return np.asarray(strategy.result.xbest, dtype=np.float64)


def _budget(problem: BlackboxProblem) -> int:
    return problem.budget


def _always(value: float | bool) -> Callable[[BlackboxProblem], float | bool]:
    return lambda problem: value


BY_DIFFERENCES = ("L-BFGS-B", "SLSQP")
TINY = _always(1e-12)
SOLVERS = {
    solver.name: solver
    for solver in (
        Solver("zotune", default),
        Solver("zotune align q=d", full_blocks),
        Solver(
            "L-BFGS-B",
            scipy("L-BFGS-B", maxfun=_budget, maxiter=_budget, ftol=TINY, gtol=_always(1e-9)),
        ),
        Solver("SLSQP", scipy("SLSQP", maxiter=_budget, ftol=TINY), suites=("person",)),
        Solver("COBYQA", scipy("COBYQA", maxfev=_budget, maxiter=_budget), largest=20),
        Solver(
            "Nelder-Mead",
            scipy(
                "Nelder-Mead",
                maxfev=_budget,
                maxiter=_budget,
                adaptive=_always(True),
                xatol=TINY,
                fatol=TINY,
            ),
            largest=200,
        ),
        Solver("Powell", scipy("Powell", maxfev=_budget, maxiter=_budget, xtol=TINY, ftol=TINY)),
        Solver("CMA-ES", cma_es),
    )
}
