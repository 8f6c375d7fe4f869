"""Validate a study as a whole: search and space together, and every combination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from zotune.core.settings import PROBLEM
from zotune.errors import ConfigError, nearest
from zotune.study.claim_checks import claim_complaints, tuning_complaints
from zotune.study.defaults import of_today
from zotune.study.model import Study
from zotune.study.points import (
    MOST,
    block_problem,
    check_step,
    dimension,
    over_weights,
    pair_problem,
    size,
)
from zotune.study.shape import entry_complaints, format_complaints, problem_complaints, shaped
from zotune.study.studyfile import GRID, OPTUNA, PBT, RANDOM, TRIALS, Complaint
from zotune.study.totals import total_complaints, without_race


def examined(data: Mapping[str, Any]) -> tuple[Study | None, list[Complaint]]:
    """The study that a mapping describes, and all complaints about it.

    The study is None if keys have wrong types. A study with complaints must not be run.
    """
    if found := list(format_complaints(data)):
        return None, found
    data = of_today(data)
    shape = shaped(data)
    found = shape if isinstance(shape, list) else []
    problem = data.get("problem")
    if isinstance(problem, str | Mapping):
        mapping = {"name": problem} if isinstance(problem, str) else problem
        found += problem_complaints(mapping)
    found += entry_complaints(data)
    if found or isinstance(shape, list):
        return None, list(dict.fromkeys(found))
    study = Study.of(shape)
    found = [*_population(study), *_replicates(study)]
    found += [*_search(without_race(study)), *_space(without_race(study))]
    found += [] if found else list(total_complaints(study))
    found += [] if found else [*_within(study), *tuning_complaints(study), *claim_complaints(study)]
    return study, list(dict.fromkeys(found))


def _replicates(study: Study) -> Iterator[Complaint]:
    """Models have no replicates in one trial."""
    if over_weights(study.problem) and study.replicates > 1 and study.replicates_as != TRIALS:
        yield Complaint(
            ("replicates",), "replicates of a model's weights are trials; say replicates_as: trials"
        )


def _population(study: Study) -> Iterator[Complaint]:
    """Combinations that Tune's population-based training does not support."""
    if study.scheduler != PBT:
        return
    at = ("scheduler",)
    if study.search.algorithm == OPTUNA:
        yield Complaint(at, "pbt changes trials by itself, and takes no optuna; use random")
    if study.replicates_as == TRIALS:
        yield Complaint(("replicates_as",), "pbt compares all trials; use rows")
    if study.within:
        yield Complaint(("within",), "pbt has one population; leave within out")
    if fixed := [key for key in study.searched if key.startswith(PROBLEM)]:
        yield Complaint(("space", fixed[0]), f"pbt compares all trials, and cannot vary {fixed[0]}")
    if len(study.spaces) > 1:
        yield Complaint(("space",), "pbt changes settings within one space; give one mapping")
    if not study.searched:
        yield Complaint(at, "pbt needs a space, whose settings it changes")


def _search(study: Study) -> Iterator[Complaint]:
    """Requirements of the search algorithm on the space."""
    search, at = study.search, ("search",)
    if search.algorithm == GRID and search.trials is not None:
        yield Complaint((*at, "trials"), "a grid runs every combination once; leave trials out")
    if search.algorithm != GRID and search.trials is None:
        yield Complaint(at, f"{search.algorithm} search needs trials, the total number of them")
    if search.algorithm != GRID and not study.sampled:
        yield Complaint(
            at, f"{search.algorithm} search has nothing to draw; give a distribution, or use grid"
        )
    if search.algorithm == OPTUNA and find_spec("optuna") is None:
        yield Complaint(at, "optuna is not installed; pip install 'zotune[optuna]'")
    if search.algorithm != GRID and study.replicates_as == TRIALS:
        yield Complaint(
            ("replicates_as",), "replicates as trials need search: {algorithm: grid}; use rows"
        )
    if len(study.spaces) > 1 and search.algorithm == OPTUNA:
        yield Complaint(("space",), "optuna searches one space; give a mapping instead of a list")
    yield from _kinds(study)


def _kinds(study: Study) -> Iterator[Complaint]:
    """Lists that Optuna cannot take, and distributions that a grid cannot."""
    if study.search.algorithm == OPTUNA:
        for key in study.grid:
            values = study.searched[key]
            yield Complaint(
                ("space", key), f"optuna takes no lists; use {key}: {{choice: {values}}}"
            )
    if study.search.algorithm == GRID:
        for key in study.sampled:
            yield Complaint(
                ("space", key),
                f"a grid cannot draw {key}; give a list, or {{algorithm: random, trials: N}}",
            )


def _space(study: Study) -> Iterator[Complaint]:
    """Invalid steps, too large blocks, and too many or too few points."""
    if (many := sum(size(space.grid) for space in study.subspaces)) > MOST:
        yield Complaint(("space",), f"a grid has at most {MOST} points, got {many}")
        return
    try:
        configs = [
            config
            for point in study.combined
            for config in (() if pair_problem(point) else study.extremes(point))
        ]
    except ConfigError as error:
        several = "; give space as a list, with a mapping for each method" * (len(study.spaces) < 2)
        yield Complaint(("space", "method"), f"{error}{several * ('method' in str(error))}")
        return
    try:
        for config in configs:
            check_step(config)
    except ConfigError as error:
        section = "fixed" if "step" in study.fixed else "space"
        yield Complaint((section, "step"), str(error))
        return
    yield from _bounds(study)
    yield from _blocks(study)


def _bounds(study: Study) -> Iterator[Complaint]:
    """Bounds whose dimension differs from the problem's."""
    known = {"fixed": study.fixed, "space": study.searched}
    section = "fixed" if "bounds" in study.fixed else "space"
    try:
        for point in study.combined if "bounds" in known[section] else ():
            for config in () if pair_problem(point) else study.extremes(point):
                config.box(dimension(config.problem))
    except ConfigError as error:
        yield Complaint((section, "bounds"), str(error))


def _blocks(study: Study) -> Iterator[Complaint]:
    where = ("space" if "q" in study.searched else "fixed", "q")
    kept = study.partition[0]
    if not kept:
        yield Complaint(where, f"no combination can be run; {study.skipped[0]}")
        return
    reasons = (block_problem(config) for point in kept for config in study.extremes(point))
    reason = next(filter(None, reasons), None)
    if reason:
        yield Complaint(where, f"q can be drawn too large: {reason}; lower its upper end")
    trials = study.search.trials
    if study.search.algorithm == RANDOM and trials is not None and trials < len(kept):
        yield Complaint(
            ("search", "trials"),
            f"trials must be at least {len(kept)}, one for each combination of the lists, "
            f"got {trials}",
        )


def _within(study: Study) -> Iterator[Complaint]:
    """``within`` must name searched lists (or ones fixed by --set), and leave one to compare."""
    known = {**study.searched, **study.fixed}
    for key in study.within:
        if key not in known:
            yield Complaint(
                ("within",),
                f"within names searched settings, and {key!r} is not in space"
                f"{nearest(key, known)}; name some of {', '.join(known)}",
            )
        elif key in study.sampled and study.sampled[key].kind != "choice":
            yield Complaint(
                ("within",), f"{key} is drawn, and no two trials agree in it; leave it out"
            )
    if study.within and study.searched and set(study.searched) <= set(study.within):
        yield Complaint(
            ("within",),
            "within names every searched setting and leaves nothing to compare; name fewer",
        )
