"""One case: a race, the automatic descent, a grid with the same total, the best in hindsight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import zotune
from zotune.bench.tuning.cases import TuningCase
from zotune.bench.tuning.rehearsal import race
from zotune.config import Config, parse_config
from zotune.core.budget import EVALUATIONS
from zotune.core.names import RUNNING
from zotune.loop import Loop
from zotune.objectives import Objective
from zotune.study.points import combinations
from zotune.study.racing import AUTO_SETTINGS, RacePlan, plan_race
from zotune.study.reserving import first_cost, step_cost

RACE, ALONE, AUTO, PAID = "race", "race without auto", "auto", "grid"
WHOLE, HALF = "hindsight", "hindsight half"
CONTESTANTS = (RACE, ALONE, AUTO, PAID, HALF, WHOLE)


@dataclass(frozen=True)
class TuningOutcome:
    """The result of each contestant on one case."""

    case: str
    problem: str
    total: int
    losses: dict[str, float]
    """The lowest loss of each, above the minimum where that is known."""


def contest(case: TuningCase) -> TuningOutcome:
    """All contestants on one case, with the same directions."""
    objective = case.make()
    below = objective.minimum or 0.0
    losses = {name: value - below for name, value in _each(case, objective)}
    return TuningOutcome(case.name, case.problem, case.total, losses)


def _each(case: TuningCase, objective: Objective) -> Iterator[tuple[str, float]]:
    total = case.total
    configs = configurations(case, total)
    yield RACE, raced(configs, objective, total, auto=True)
    yield ALONE, raced(configs, objective, total, auto=False)
    yield AUTO, zotune.minimize(objective, budget=total, progress=False).best_loss
    ends = [best_at(c, objective, (total // len(configs), total // 2, total)) for c in configs]
    for name, at in ((PAID, 0), (HALF, 1), (WHOLE, 2)):
        yield name, min(end[at] for end in ends)


def raced(configs: Sequence[Config], objective: Objective, total: int, *, auto: bool) -> float:
    """The lowest loss of a race of these, with or without the automatic descent."""
    rungs, racers = racing(configs, objective, total, auto=auto)
    return race(racers, objective, rungs, total).best_loss


def racing(
    configs: Sequence[Config], objective: Objective, total: int, *, auto: bool
) -> tuple[RacePlan, list[Config]]:
    """The rungs of a race, and its configurations; the automatic descent is the last."""
    steps, known = max(step_cost(config) for config in configs), objective.L is not None
    first = max(first_cost(config, knows_smoothness=known) for config in configs)
    rungs = plan_race(total, len(configs), step=steps, first=first, auto=auto)
    racers = [config.model_copy(update={"report_every": rungs.every}) for config in configs]
    if rungs.auto is not None:
        settings = AUTO_SETTINGS | {"budget": rungs.auto, "report_every": rungs.every}
        racers.append(parse_config(settings | {"count": EVALUATIONS}))
    return rungs, racers


def configurations(case: TuningCase, total: int) -> list[Config]:
    """The configurations to choose from, each with the whole total as its budget."""
    shared: dict[str, Any] = {"estimator": "align", "count": EVALUATIONS, "budget": total}
    return [parse_config({**shared, **case.fixed, **point}) for point in combinations(case.space)]


def best_at(config: Config, objective: Objective, goals: Sequence[int]) -> list[float]:
    """The lowest loss of a configuration at the first step at or past each of these, ascending."""
    loop, found = Loop(config, objective), []
    state = loop.init()
    for goal in goals:
        while loop.status(state) == RUNNING and loop.spent(state) < goal:
            state = loop.advance(state, goal)
        state, _ = loop.report(state)
        found.append(float(state.best_loss.min()))
    return found
