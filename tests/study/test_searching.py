"""What Optuna is told and what it draws, without Ray: no point twice, and not a word."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.instrument import plain_study
from zotune.study import Study
from zotune.study.points import Point
from zotune.study.tuning import param_space, searcher

DRAWN: dict[str, Any] = {
    "estimator": {"choice": ["avg", "align"]},
    "q": {"lograndint": [1, 30]},
    "eta": {"loguniform": [0.3, 8]},
}
LISTED: dict[str, Any] = {
    "estimator": {"choice": ["avg", "align"]},
    "q": {"choice": [1, 3, 10]},
    "eta": {"choice": [0.5, 2.0]},
}


def study(trials: int, space: dict[str, Any] = DRAWN, **changes: Any) -> Study:
    settings: dict[str, Any] = {
        "name": "opt",
        "problem": {"name": "quadratic", "dim": 30},
        "budget": 300,
        "replicates": 3,
        "space": space,
        "search": {"algorithm": "optuna", "trials": trials},
    }
    return plain_study(**settings | changes)


def begun(of: Study, known: Iterable[Point] = ()) -> Any:
    """The study's searcher as Tune begins it, with trials that an earlier launch had."""
    search = searcher(of, {of.configuration(point).identity: "checkpoint" for point in known})
    search.set_search_properties("loss", "min", param_space(of))
    return search


def searched(of: Study, known: Iterable[Point] = (), at_once: int = 2) -> list[Point]:
    """The points of all trials, so many of which run at one time."""
    search, points = begun(of, known), []
    for at in range(of.size):
        if at >= at_once:
            done = points[at - at_once]
            search.on_trial_complete(f"{at - at_once}", {"loss": done["q"] * done["eta"]})
        points.append(search.suggest(f"{at}"))
    return points


def distinct(points: Iterable[Point]) -> set[tuple[Any, ...]]:
    return {tuple(sorted(point.items())) for point in points}


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize(("before", "after"), [(6, 12), (30, 45)])
def test_a_search_that_goes_on_keeps_its_points_and_adds_new_ones(
    before: int, after: int, at_once: int
) -> None:
    old = searched(study(before))
    found = searched(study(after), old, at_once)
    assert distinct(found[:before]) == distinct(old)
    assert len(distinct(found)) == after


def test_a_search_that_goes_on_draws_what_a_longer_one_would_have() -> None:
    whole = searched(study(10))
    assert searched(study(10), whole[:6])[6:] == whole[6:]
    lost = [*whole[:2], *whole[3:6]]  # a trial that failed before its first checkpoint
    assert searched(study(10), lost)[5:] == [whole[2], *whole[6:]]


def test_the_order_in_which_old_trials_are_found_changes_nothing() -> None:
    old = searched(study(12))
    assert searched(study(20), old) == searched(study(20), old[::-1])


def test_a_search_with_few_points_has_each_before_any_twice() -> None:
    points = searched(study(20, LISTED))
    assert len(distinct(points[:12])) == 12
    assert len(points) == 20


def test_a_saved_search_goes_on_without_copies(tmp_path: Path) -> None:
    search = begun(study(12, LISTED))
    points = [search.suggest(f"{at}") for at in range(6)]
    search.save(str(tmp_path / "state"))
    restored = begun(study(12, LISTED))
    restored.restore(str(tmp_path / "state"))
    points += [restored.suggest(f"{at}") for at in range(6, 12)]
    assert len(distinct(points)) == 12


@pytest.mark.parametrize("seed", [-1, 2**40])
def test_every_seed_of_a_study_is_one_for_optuna(seed: int) -> None:
    assert len(distinct(searched(study(3, seed=seed)))) == 3


def test_optuna_says_nothing_when_a_search_begins_and_speaks_again_afterwards() -> None:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger, level = logging.getLogger("optuna"), optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.INFO)
    logger.addHandler(handler)
    try:
        begun(study(6))
        assert said == []
        assert optuna.logging.get_verbosity() == optuna.logging.INFO
    finally:
        logger.removeHandler(handler)
        optuna.logging.set_verbosity(level)
