"""The total budget of a study, over all trials and replicates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from zotune.config import Config
from zotune.core.settings import PROBLEM, label, setting
from zotune.core.spending import Spending
from zotune.errors import ConfigError
from zotune.methods import AUTO
from zotune.study.points import Point, knows_smoothness, located, over_weights
from zotune.study.racing import AUTO_SETTINGS, RacePlan, plan_race
from zotune.study.studyfile import ASHA, GRID, NO_SCHEDULER, PBT, RACE, RANDOM, ROWS, Complaint

if TYPE_CHECKING:
    from zotune.study.model import Study


def with_race_budget(data: Any) -> Any:
    """By default, each trial of a race may spend the whole total."""
    if not isinstance(data, Mapping) or "budget" in data or not isinstance(data.get("total"), int):
        return data
    search, replicates = data.get("search"), data.get("replicates", 1)
    races = isinstance(search, Mapping) and search.get("algorithm") == RACE
    if not races or not isinstance(replicates, int) or replicates < 1:
        return data
    return {**data, "budget": max(1, data["total"] // replicates)}


def without_race(study: Study) -> Study:
    """The study with a grid or a random search in place of the race."""
    if study.search.algorithm != RACE:
        return study
    drawn = bool(study.sampled) or study.search.trials is not None
    changes = {"algorithm": RANDOM if drawn else GRID, "auto": None}
    search = study.search.model_copy(update=changes)
    fields = {name: getattr(study, name) for name in type(study).model_fields}
    return type(study).model_construct(study.model_fields_set, **{**fields, "search": search})


def plan_of_race(study: Study) -> RacePlan:
    """The rungs of a study's race, with the automatic descent if it may join."""
    racers = without_race(study)
    rungs = partial(
        plan_race,
        (study.total or 0) // study.replicates,
        racers.size,
        step=racers.largest_step,
        first=_most_at_first(racers),
        every=study.report_every,
    )
    if study.search.auto is None and _auto_may_join(study):
        with suppress(ConfigError):  # the total is too small for one more
            return rungs(auto=True)
    return rungs(auto=bool(study.search.auto))


def _most_at_first(racers: Study) -> int:
    """Maximum cost of the first step of any configuration."""
    from zotune.study.reserving import first_cost  # with Ray

    known = knows_smoothness(located(racers.problem))
    configs = (c for p in racers.partition[0] for c in racers.extremes(p))
    return max(first_cost(config, knows_smoothness=known) for config in configs)


def _auto_may_join(study: Study) -> bool:
    """Whether the automatic descent supports the problem of the configurations."""
    one_problem = not any(key.startswith(PROBLEM) for key in study.searched)
    return one_problem and not over_weights(located(study.problem))


def _some_choose(study: Study) -> bool:
    """Whether a configuration of the space is the automatic descent already."""
    racers = without_race(study)
    return any(c.method == AUTO for p in racers.partition[0] for c in racers.extremes(p))


def auto_point(study: Study) -> Point:
    """The point of the automatic descent in a race; empty if it does not take part."""
    budget = plan_of_race(study).auto
    if budget is None:
        return {}
    others = {key: Config.model_fields[key].default for key in study.searched}
    return {**others, **AUTO_SETTINGS, "budget": min(study.budget, budget)}


def least(study: Study) -> int:
    """Cost of the cheapest trial up to its first report, for all replicates."""
    from zotune.study.reserving import upto

    return min(upto(c, 0, fresh=True) for p in study.partition[0] for c in study.extremes(p))


def total_complaints(study: Study) -> Iterator[Complaint]:
    """Complaints about a total that is too small, and about an invalid race."""
    if study.search.algorithm == RACE:
        yield from _race_complaints(study)
    elif study.total is not None and study.total < (needed := least(study)):
        yield Complaint(
            ("total",),
            f"total must cover the first report of one trial: that needs {needed} {study.count}, "
            f"got total={study.total}; raise it, or lower report_every, q or replicates",
        )


def _race_complaints(study: Study) -> Iterator[Complaint]:
    at = ("search", "algorithm")
    if study.total is None:
        yield Complaint(at, "a race shares one total among its configurations; give total: N")
        return
    if study.replicates_as != ROWS:
        yield Complaint(("replicates_as",), "a race compares configurations whole; use rows")
    if study.scheduler != NO_SCHEDULER:
        yield Complaint(("scheduler",), f"a race is its own scheduler; leave {study.scheduler} out")
    if _some_choose(study):
        yield Complaint(at, "a race has a run with update: auto by itself; leave it out of space")
    if study.search.auto and not _auto_may_join(study):
        yield Complaint(
            ("search", "auto"),
            "the run that chooses everything is for one function of a vector, not for models or "
            "several problems; leave auto out",
        )
    try:
        plan_of_race(study)
    except ConfigError as error:
        yield Complaint(("total",), str(error))


def total_lines(study: Study, spending: Spending, missing: Sequence[str]) -> list[str]:
    """Lines about the spent total, and trials left out because of it; empty without a total."""
    if study.total is None:
        return []
    with_before = f", {spending.before} of them by the launch before" if spending.before else ""
    spent = spending.before + spending.charged
    lines = [f"spent {spent} of a total of {study.total} {study.count}{with_before}"]
    return [*lines, left_out_line(missing, study.size)] if missing else lines


def left_out(study: Study, begun: Iterable[Mapping[str, Any]]) -> list[str]:
    """Labels of trials that were not begun because the total was spent.

    Trials of a sequential search, whose points are not drawn yet, are numbered instead.

    Args:
        study: the study; without a total, no trial is left out.
        begun: configurations of the trials that were begun.
    """
    if study.total is None:
        return []
    configs = list(begun)
    if study.scheduler == PBT:  # its trials change their settings on the way
        return [f"trial {at + 1}" for at in range(len(configs), study.size)]
    missing = [label(point) for point in study.trials if not any(_is_at(c, point) for c in configs)]
    if study.trials or len(configs) >= study.size:
        return missing
    return [f"trial {at + 1}, not yet drawn" for at in range(len(configs), study.size)]


def _is_at(config: Mapping[str, Any], point: Point) -> bool:
    """Whether a configuration is at a point; records may hold values as text."""
    return all(str(setting(config, key)) == str(value) for key, value in point.items())


def left_out_line(missing: Sequence[str], size: int) -> str:
    """One line about trials that were left out; long lists are truncated."""
    named = "; ".join(missing[:NAMED]) + ("; …" if len(missing) > NAMED else "")
    many = f"{len(missing)} of {size} trials"
    return f"not begun, because the total was spent: {many}: {named}"


NAMED = 8
"""Maximum number of trials that are named in one line."""


def _values(study: Study, key: str) -> list[Any]:
    """The values of a setting in a study; empty if it has its default."""
    axis = study.axes.get(key, [study.fixed[key]] if key in study.fixed else [])
    return axis if isinstance(axis, list) else axis.ends


def hints(study: Study) -> list[str]:
    """Hints about a valid study that the user may want to change."""
    compares = study.scheduler == ASHA and "q" in study.searched and "q" not in study.within
    if not compares or len(_values(study, "q")) < 2:
        return []
    return [
        "hint: asha compares trials of different q at the same spent budget, and a large q has "
        "made a step or two at the first rung; within: [q] compares each q with itself"
    ]
