"""A study whose space is a list: each method has settings of its own."""

from __future__ import annotations

from typing import Any

import pytest

from zotune.errors import ZotuneError
from zotune.study import Study
from zotune.study.studyfile import apply_settings, parse_document
from zotune.study.tuning import param_space

SPACES: list[dict[str, Any]] = [
    {"method": ["auto", "lbfgsb"]},
    {"estimator": ["align"], "q": [1, 5], "update": ["sgd", "lbfgs"]},
]


def study(**more: Any) -> Study:
    told: dict[str, Any] = {"problem": {"name": "rosenbrock", "dim": 5}, "budget": 300}
    return Study(**{"name": "methods", "space": SPACES, **told, **more})


def test_the_grid_of_every_space_is_run() -> None:
    made = study()
    assert made.size == 6
    assert made.trials[:2] == [{"method": "auto"}, {"method": "lbfgsb"}]
    configs = [made.configuration(point) for point in made.trials]
    assert [config.method for config in configs] == ["auto", "lbfgsb", *["blocks"] * 4]
    assert {config.q for config in configs[2:]} == {1, 5}
    assert made.searched == {
        "method": ["auto", "lbfgsb"],
        "estimator": ["align"],
        "q": [1, 5],
        "update": ["sgd", "lbfgs"],
    }


def test_every_trial_has_the_same_keys_in_tune() -> None:
    assert param_space(study()).keys() >= {"method", "estimator", "q", "update"}


def test_a_random_search_draws_for_each_space_by_itself() -> None:
    spaces = [{"method": ["auto"]}, {"q": [1, 5], "eta": {"loguniform": [1e-4, 1e-1]}}]
    made = study(space=spaces, search={"algorithm": "random", "trials": 7})
    points = made.trials
    assert [point.get("method") for point in points] == ["auto", None, None] * 2 + ["auto"]
    assert all(("eta" in point) == ("q" in point) for point in points)
    assert points == study(space=spaces, search={"algorithm": "random", "trials": 7}).trials


def test_combinations_that_stand_in_two_spaces_are_run_once() -> None:
    assert study(space=[{"q": [1, 5]}, {"q": [5, 2]}]).trials == [{"q": 1}, {"q": 5}, {"q": 2}]


def test_a_study_of_spaces_survives_its_own_file() -> None:
    made = study()
    assert Study(**parse_document(made.to_yaml(), "study.yaml").data).trials == made.trials


def test_a_smaller_study_has_the_same_spaces() -> None:
    assert [set(space) for space in study().smoke().spaces] == [set(space) for space in SPACES]


def test_set_says_which_of_the_spaces_is_meant() -> None:
    document = parse_document(study().to_yaml(), "study.yaml")
    keys = Study.model_fields
    changed = apply_settings(document, ["space.1.q=[2]"], keys)
    assert {point.get("q") for point in Study(**changed.data).trials} == {None, 2}
    with pytest.raises(
        ZotuneError, match=r"space is a list of 2; say which, such as space\.0\.q=…"
    ):
        apply_settings(document, ["space.q=[2]"], keys)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"space": {"method": ["auto", "lbfgsb"], "q": [1]}},
            "give space as a list, with a mapping",
        ),
        ({"space": []}, r"space must be a mapping, or a list of mappings, got \[\]"),
        ({"space": [{"q": [1]}, 5]}, "space must be a mapping, or a list of mappings"),
        ({"space": [{"q": [1]}, {"qq": [5]}]}, "'qq' is not a setting"),
        ({"fixed": {"q": 3}}, "q is both searched and fixed"),
        ({"search": {"algorithm": "optuna", "trials": 3}}, "optuna searches one space"),
        ({"space": [{"method": ["newton"]}], "budget": 15}, "needs 21 of a budget of 15"),
    ],
)
def test_mistakes_are_answered_in_one_line(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ZotuneError, match=message):
        study(**more)


def test_a_random_search_draws_nothing_at_infeasible_combinations() -> None:
    space = {"q": [1, 1000], "eta": {"loguniform": [1e-4, 1e-1]}}
    made = study(space=space, search={"algorithm": "random", "trials": 4})
    assert [str(skipped.point) for skipped in made.skipped] == ["{'q': 1000}"]
    assert [point["q"] for point in made.trials] == [1, 1, 1, 1]
