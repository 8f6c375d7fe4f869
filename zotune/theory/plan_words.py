"""The text of a plan: advice, assumptions, notes, and the command of a study to verify it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zotune.core.budget import DIRECTIONS
from zotune.core.differences import FORWARD
from zotune.directions import DIRECTIONS as DIRECTION_KINDS
from zotune.estimators import ESTIMATORS
from zotune.theory import CONVEX, NONCONVEX, STOCHASTIC, STRONGLY_CONVEX
from zotune.updates import PLAIN

if TYPE_CHECKING:
    from zotune.theory.plan_case import Case, Option
    from zotune.theory.planning import Flatness

NEAR = 0.9
"""If q exceeds this share of the dimension, solving for a block magnifies errors."""
LOST = 1e-3
"""Share of dependent directions in a block above which there is a note."""


ENOUGH = 10
"""Minimum number of steps, so that a run can follow a function whose curvature changes."""
FLOAT, MINUTE, HOUR = 8, 60, 3600


def advice(case: Case, flat: Flatness) -> Iterator[str]:
    """Advice: block sizes that lose little, one of them to start with, and its cost."""
    q = advised(case, flat)
    steps = case.steps(q)
    if flat.low == flat.high:
        yield f"Use {flat.estimator} with q = {q}: {_many(steps, 'step')}."
    else:
        yield (
            f"Use {flat.estimator} with any q from {flat.low} to {flat.high}: they lose at most "
            f"{flat.within:.0%} of the rate. Begin with q = {q}, {_many(steps, 'step')}."
        )
    if steps < ENOUGH:
        yield (
            f"{_many(steps, 'step')} can hardly follow a function; a larger budget, fewer "
            "coordinates, or minimize with nothing else said, does more."
        )
    calls = case.calls(q)
    yield (
        f"A block of directions takes {_bytes(q * case.dim * FLOAT)}; {_many(calls, 'call')} of "
        f"f take {spoken_time(calls)} if each takes a second."
    )


def advised(case: Case, flat: Flatness) -> int:
    """The largest block in the flat range that leaves enough steps, else the smallest.

    Blocks that are nearly square are left out if the estimator solves a linear system.
    """
    most = NEAR * case.dim if _solves(case, flat.estimator) else case.dim
    fit = [q for q in _between(flat) if case.steps(q) >= ENOUGH and q <= max(most, flat.low)]
    return max(fit, default=flat.low)


def _between(flat: Flatness) -> set[int]:
    """Candidate block sizes in a flat range: its ends, and round numbers."""
    round_ones = {digit * 10**k for k in range(len(str(flat.high))) for digit in (1, 2, 5)}
    return {flat.low, flat.high, *(q for q in round_ones if flat.low <= q <= flat.high)}


def own_study(case: Case) -> str:
    """The command that writes a study of the user's own function."""
    return f"zotune init mine --function FILE.py:f --dim {case.dim}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _bytes(size: float) -> str:
    """A size in memory.

    >>> _bytes(80), _bytes(2.4e9)
    ('80 bytes', '2.4 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:g} bytes"


def spoken_time(seconds: float) -> str:
    """A time in readable units.

    >>> spoken_time(50), spoken_time(3000), spoken_time(20000)
    ('50 seconds', '50 minutes', '5.6 hours')
    """
    if seconds < 2 * MINUTE:
        return f"{seconds:.3g} seconds"
    if seconds < 2 * HOUR:
        return f"{seconds / MINUTE:.0f} minutes"
    return f"{seconds / HOUR:.1f} hours"


def assumptions(case: Case) -> Iterator[str]:
    """The assumptions of the bounds."""
    yield {
        STRONGLY_CONVEX: f"f is L-smooth and strongly convex, with L/γ = {case.condition:g} "
        "(condition); the bound depends on it, the choice hardly does",
        CONVEX: "f is L-smooth and convex, and has a minimiser x*",
        NONCONVEX: "f is L-smooth and bounded below by f*",
        STOCHASTIC: "f is convex, every F(·, ξ) is L-smooth, and the noise at x* is "
        f"σ = {case.noise:g} L ‖x_0 − x*‖ (noise)",
    }[case.regime]
    yield _charged(case)
    yield "mu → 0: differences are directional derivatives, free of bias and rounding"
    yield "all blocks have the same q ≤ d, but for a last one that takes what is left"
    yield (
        "steps decay like 1/√(t+1) from the first, which each q chooses as the bound likes best; "
        "x̄_T is the average of the iterates that a run keeps"
        if case.regime == STOCHASTIC
        else "steps are those that the smoothness bound likes best"
    )


def _charged(case: Case) -> str:
    """The cost of a step, for either way of counting."""
    difference = case.budget.difference.name
    calls = f"{'q + 1' if difference == FORWARD else '2q'} with {difference} differences"
    if case.budget.count == DIRECTIONS:
        return f"a step is charged its q directions, not its calls of f, {calls}"
    return f"a step is charged every call of f, {calls}"


def notes(case: Case, best: Option, flatness: Sequence[Flatness]) -> Iterator[str]:
    """Notes for readers of the plan."""
    flat = ", ".join(f"{f.estimator} with {_range(f)}" for f in flatness)
    yield f"how flat the optimum is: at most {flatness[0].within:.0%} of the rate is lost by {flat}"
    if case.L is None:
        yield _unknown_smoothness(case)
    if case.regime in (NONCONVEX, STOCHASTIC) and best.steps == 1:
        yield "after one step the bound speaks of the start alone; a larger budget says more"
    yield from _of_update(case)
    yield from _solving(case, best)
    yield from _dependent(case)
    where = f"on the paper's problem{_elsewhere(case)}"
    yield (
        "a bound is not a forecast: it knows L and not the other curvatures, and tuning the step "
        f"can turn the order around; the command below finds out {where}"
    )


def _of_update(case: Case) -> Iterator[str]:
    """Notes on whether the plan applies to the update."""
    if case.accelerated:
        yield (
            "the bound is that of the accelerated method without restarts, at the point that it "
            "keeps beside the one that is evaluated; a run restarts where its momentum leads uphill"
        )
    elif case.update != PLAIN:
        yield (
            f"no rate of update {case.update} is proven here: estimator, q and bound are those of "
            "plain descent; take step auto, or tune eta"
        )


def _range(flat: Flatness) -> str:
    """The range of block sizes that are about as good as the best."""
    if flat.low == flat.high:
        return f"q = {flat.q} only"
    return f"q from {flat.low} to {flat.high} (best {flat.q})"


def _unknown_smoothness(case: Case) -> str:
    if case.regime == STOCHASTIC:
        return (
            "L is not given, so the first step is a multiple of 1/L; a run estimates no L for "
            "steps that decay, and wants the first as eta"
        )
    return (
        "L is not given, so the step is a multiple of 1/L; a run that does not know L estimates "
        "it, and takes that from the budget"
    )


def _solving(case: Case, best: Option) -> Iterator[str]:
    """A note on nearly square blocks, whose linear systems are ill-conditioned."""
    if _solves(case, best.estimator) and best.q > max(1, NEAR * case.dim):
        forward = case.budget.difference.name == FORWARD
        yield (
            f"solving for {best.q} directions that nearly span R^{case.dim} magnifies rounding"
            f"{', and the bias of forward differences' if forward else ''}: prefer orthogonal "
            f"directions, {'central differences, ' if forward else ''}"
            f"or q ≤ {max(1, int(NEAR * case.dim))}"
        )


def _solves(case: Case, estimator: str) -> bool:
    """Whether the estimator solves a linear system with the block's directions."""
    orthogonal = DIRECTION_KINDS[case.directions].orthogonal
    return "interpolates" in ESTIMATORS[estimator].claims and not orthogonal


def _dependent(case: Case) -> Iterator[str]:
    """A note on linearly dependent random signs, for which a projection has lower rank."""
    for how in case.methods:
        independent = how.progress(case.most) * case.dim
        projects = "projects" in how.estimator.claims
        if projects and independent < (1 - LOST) * case.most:
            yield (
                f"{case.directions} directions may depend on each other: "
                f"{how.estimator.name} counts on {independent:.4g} independent ones of "
                f"{case.most}, the least that their mean can be; orthogonal ones never depend"
            )


def _elsewhere(case: Case) -> str:
    """The size of the study if it differs from the plan's."""
    studied = case.studied
    if studied == case:
        return ""
    return f", with d = {studied.dim} and a budget of {studied.budget.limit}"


def command(case: Case, flatness: Sequence[Flatness]) -> str:
    """The command of a study that tunes step and q on the paper's problem for the regime."""
    q = sorted({1, case.most, *(f.q for f in flatness), *case.powers})
    settings = {
        "problem.dim": case.dim,
        "budget": case.budget.limit,
        "count": case.budget.count,
        "difference": case.budget.difference.name,
        "directions": case.directions,
        "space.q": f"'{q}'",
    }
    if case.regime != STOCHASTIC:
        settings["space.eta"] = "'[0.5, 1, 2, 4]'"
    defaults = {"count": DIRECTIONS, "difference": FORWARD, "directions": "gaussian"}
    given = [f"--set {k}={v}" for k, v in settings.items() if defaults.get(k) != v]
    return " ".join(["zotune run", f"{case.regime}-tuned", *given])
