"""Outcomes as a table and as performance profiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zotune.bench.blackbox.judging import TOLERANCES, SolverOutcome

if TYPE_CHECKING:
    from rich.table import Table

PERSON = "person"
"""The suite whose losses have one scale, so that answers may be shown together."""
NEAR_BEST = 1.1
"""A gap of at most this times the lowest of all solvers counts as among the best."""
CONVERGED = 1e-9
"""So does one of at most this share of start − minimum: last digits are not compared."""


def by_solver(outcomes: Iterable[SolverOutcome]) -> dict[str, list[SolverOutcome]]:
    """Outcomes of each solver, in the order of their appearance."""
    found: dict[str, list[SolverOutcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.solver, []).append(outcome)
    return found


def by_problem(outcomes: Iterable[SolverOutcome]) -> list[list[SolverOutcome]]:
    """Outcomes of each problem."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.problem)
    return [list(group) for _, group in groupby(ordered, key=lambda outcome: outcome.problem)]


def among_best(outcomes: Sequence[SolverOutcome]) -> dict[str, int]:
    """How often each solver converged, or ended within 10 % of the lowest gap of all."""
    wins = dict.fromkeys(by_solver(outcomes), 0)
    for group in by_problem(outcomes):
        lowest = min(outcome.gap for outcome in group)
        for outcome in group:
            digits = CONVERGED * (outcome.start - outcome.minimum)
            wins[outcome.solver] += outcome.gap <= max(NEAR_BEST * lowest, lowest, digits)
    return wins


def table(outcomes: Sequence[SolverOutcome]) -> Table:
    """Problems solved at each tolerance by each solver, and what went wrong."""
    from rich.table import Table

    titles = [f"τ={tolerance:g}" for tolerance in TOLERANCES]
    title = f"problems solved: gap ≤ τ (start − minimum), of {len(by_problem(outcomes))}"
    shown = Table("solver", title=title, pad_edge=False)
    shares_a_scale = {outcome.suite for outcome in outcomes} == {PERSON}
    answers = ("lowest answer", "median", "highest") if shares_a_scale else ()
    for column in ("run", *titles, "best", "refused", "above start", "seconds", *answers):
        shown.add_column(column, justify="right")
    wins = among_best(outcomes)
    for solver, group in by_solver(outcomes).items():
        solved = (sum(o.reached[f"{t:g}"] is not None for o in group) for t in TOLERANCES)
        refused = sum(o.refused is not None for o in group)
        above = sum(o.is_above_start for o in group)
        seconds = f"{sum(o.seconds for o in group):.3g}"
        cells = (len(group), *solved, wins[solver], refused, above)
        ends = np.quantile([o.answer for o in group], (0, 0.5, 1)) if shares_a_scale else ()
        shown.add_row(solver, *map(str, cells), seconds, *(f"{end:.3g}" for end in ends))
    return shown


def profile(
    outcomes: Sequence[SolverOutcome], tolerance: float
) -> dict[str, tuple[list[float], list[float]]]:
    """Dolan and Moré's performance profile of each solver.

    ρ(r) is the share of problems that a solver solves with at most r times the evaluations of the
    solver that needed fewest.

    Returns:
        For each solver the ratios at which ρ rises, and ρ there.
    """
    key, groups = f"{tolerance:g}", by_problem(outcomes)
    ratios: dict[str, list[float]] = {solver: [] for solver in by_solver(outcomes)}
    for group in groups:
        spent = {o.solver: o.reached[key] for o in group}
        fewest = min((n for n in spent.values() if n is not None), default=1)
        for solver, n in spent.items():
            if n is not None:
                ratios[solver].append(n / fewest)
    return {
        solver: (sorted(found), [(at + 1) / len(groups) for at in range(len(found))])
        for solver, found in ratios.items()
    }


def plot(outcomes: Sequence[SolverOutcome], path: Path) -> Path:
    """Performance profiles on evaluations, a panel for each tolerance."""
    from zotune.reporting.drawing import OKABE_ITO, RESOLUTION, panels, styled

    figure, axes = panels(len(TOLERANCES))
    profiles = [profile(outcomes, tolerance) for tolerance in TOLERANCES]
    right = 2 * max([r for p in profiles for ratios, _ in p.values() for r in ratios], default=1.0)
    with styled():
        for ax, tolerance, found in zip(axes, TOLERANCES, profiles, strict=True):
            for rank, (solver, (ratios, shares)) in enumerate(found.items()):
                x = np.array([1.0, *ratios, right])
                y = np.array([0.0, *shares, shares[-1] if shares else 0.0])
                dashes = "-" if rank < len(OKABE_ITO) else "--"
                color = OKABE_ITO[rank % len(OKABE_ITO)]
                ax.step(x, y, where="post", label=solver, color=color, linestyle=dashes)
            ax.set(title=f"τ = {tolerance:g}", xscale="log", xlabel="evaluations / fewest")
            ax.set_ylim(0, 1)
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter("")
        axes[0].set_ylabel("share of problems solved")
        axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=RESOLUTION)
    return path
