"""One run of each solver on each problem, and how it ended."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from math import inf, isfinite
from os import SEEK_END
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from zotune.bench.blackbox.counting import BudgetSpent, Counter
from zotune.bench.blackbox.problems import ALL, BlackboxProblem, TrueValues, problems
from zotune.bench.blackbox.solvers import SOLVERS, Solver
from zotune.errors import ConfigError, one_of

TOLERANCES = (1e-1, 1e-3, 1e-6)
REFERENCES = "references.json"


@dataclass(frozen=True)
class SolverOutcome:
    """The result of a solver on a problem."""

    suite: str
    problem: str
    dim: int
    half: str
    solver: str
    budget: int
    start: float
    minimum: float
    """The known minimum, or the frozen reference, the lowest value that was ever found."""
    best: float
    """Lowest value evaluated; the noise-free one on noisy functions."""
    answer: float
    """Value at the point that the solver returned; noise-free on noisy functions."""
    evaluations: int
    seconds: float
    reached: dict[str, int | None]
    """Evaluations until the gap was at most τ (start − minimum), for each τ."""
    refused: str | None
    """The error, if the solver raised one before it had spent half of its budget."""

    @property
    def gap(self) -> float:
        """The best value above the minimum."""
        return self.best - self.minimum

    @property
    def is_above_start(self) -> bool:
        """Whether the answer is worse than the start."""
        return not self.answer <= self.start


@cache
def references() -> dict[str, dict[str, float]]:
    """Reference minima by suite and problem, as frozen in the package."""
    text = files("zotune.bench.blackbox").joinpath(REFERENCES).read_text()
    frozen: dict[str, dict[str, float]] = json.loads(text)
    return frozen


def reference(suite: str, problem: BlackboxProblem) -> float:
    """The minimum that a problem is judged by."""
    if problem.minimum is not None:
        return problem.minimum
    found = references().get(suite, {}).get(problem.name)
    if found is None:
        raise ConfigError(
            f"{problem.name} has no reference minimum; freeze one with "
            f"zotune bench blackbox --suite {suite} --freeze FILE"
        )
    return found


def run(problem: BlackboxProblem, solver: Solver, minimum: float, suite: str = "") -> SolverOutcome:
    """Run a solver on a problem with its budget."""
    with problem.opened() as (function, true), quiet():
        look = function if true is None else true.at
        counter, answer, error = Counter(function, problem.budget), None, None
        begun = perf_counter()
        try:
            answer = solver.solve(counter, problem)
        except BudgetSpent:
            pass
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}".splitlines()[0]
        seconds = perf_counter() - begun
        start = float(look(problem.start))
        end = answer if answer is not None else counter.best_x
        value = start if end is None else float(look(end))
        history = _history(counter, true)
    best = min([value for _, value in history], default=start)
    return SolverOutcome(
        suite=suite,
        problem=problem.name,
        dim=problem.dim,
        half=problem.half,
        solver=solver.name,
        budget=problem.budget,
        start=start,
        minimum=minimum,
        best=best,
        answer=value if isfinite(value) else inf,
        evaluations=counter.evaluations,
        seconds=seconds,
        reached={f"{t:g}": reached(history, start, minimum, t) for t in TOLERANCES},
        refused=error if counter.evaluations < problem.budget / 2 else None,
    )


def _history(counter: Counter, true: TrueValues | None) -> list[tuple[int, float]]:
    return counter.history if true is None else true.best()


def reached(
    history: Iterable[tuple[int, float]], start: float, minimum: float, tolerance: float
) -> int | None:
    """Evaluations until the gap was at most τ (start − minimum); None if it never was.

    >>> reached([(1, 8.0), (5, 1.0), (9, 0.1)], start=8.0, minimum=0.0, tolerance=0.2)
    5
    """
    wanted = minimum + tolerance * max(start - minimum, 0.0)
    return next((count for count, value in history if value <= wanted), None)


class quiet(warnings.catch_warnings):
    """Suppress warnings of third-party functions, such as overflow, which gives inf or NaN."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")
        self._before = np.seterr(all="ignore")

    def __exit__(self, *error: Any) -> None:
        np.seterr(**self._before)
        super().__exit__(*error)


def bench(
    *,
    suite: str,
    dims: Sequence[int] | None = None,
    half: str = ALL,
    instance: int = 1,
    solvers: Sequence[str] = (),
    records: Path | None = None,
    on_case: Callable[[str], None] = lambda case: None,
) -> Iterator[SolverOutcome]:
    """Run every solver on every problem of a suite.

    Outcomes are appended to the file ``records``; those that it has already are not run again.
    """
    chosen = [SOLVERS[one_of("solver", name, SOLVERS)] for name in solvers or SOLVERS]
    known = read_records(records) if records is not None else {}
    for problem in problems(suite, dims, half, instance):
        minimum = None
        for solver in chosen:
            if not solver.runs_on(suite, problem.dim):
                continue
            outcome = known.get((suite, problem.name, problem.budget, solver.name))
            if outcome is None:
                on_case(f"{problem.name} (d = {problem.dim}), {solver.name}")
                minimum = reference(suite, problem) if minimum is None else minimum
                outcome = run(problem, solver, minimum, suite)
                if records is not None:
                    add_record(records, outcome)
            yield outcome


def add_record(path: Path, outcome: SolverOutcome) -> None:
    """Append a line to a file; if the last line is truncated, start a new one first."""
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, SEEK_END)
            file.write(b"" if file.read() == b"\n" else b"\n")
        file.write(json.dumps(asdict(outcome)).encode() + b"\n")


def read_records(path: Path) -> dict[tuple[str, str, int, str], SolverOutcome]:
    """Outcomes in a file of JSON lines, without a truncated last line."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            outcome = SolverOutcome(**json.loads(line))
            found[outcome.suite, outcome.problem, outcome.budget, outcome.solver] = outcome
    return found


def as_records(outcomes: Iterable[SolverOutcome]) -> list[dict[str, Any]]:
    """Outcomes as JSON."""
    return [asdict(outcome) for outcome in outcomes]
