"""The search space: one scale for every estimator and q."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from ray.tune.search.variant_generator import generate_variants

import zotune
from zotune.config import parse_config
from zotune.errors import ConfigError, UnknownNameError
from zotune.estimators import ESTIMATORS
from zotune.loop import Loop
from zotune.objectives import build_problem


def draws(space: dict[str, Any], n: int = 200) -> list[dict[str, Any]]:
    random.seed(0)
    np.random.seed(0)
    return [next(iter(generate_variants(space)))[1] for _ in range(n)]


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"dim": 50, "budget": 1000}, 50),
        ({"dim": 50, "budget": 30, "count": "directions"}, 30),
        ({"dim": 50, "budget": 30}, 29),
        ({"dim": 50, "budget": 30, "difference": "central"}, 15),
        ({"dim": 1, "budget": 30}, 1),
    ],
)
def test_q_is_bounded_by_dimension_and_budget(options: dict[str, Any], most: int) -> None:
    sizes = [draw["q"] for draw in draws(zotune.search_space(**options), 2000)]
    assert min(sizes) == 1
    assert max(sizes) == most


def test_every_draw_is_a_run_that_starts() -> None:
    problem = {"name": "quadratic", "dim": 20}
    objective = build_problem(problem)
    space = zotune.search_space(
        dim=20,
        budget=60,
        problem=problem,
        directions=["gaussian", "orthogonal"],
        difference=["forward", "central"],
        mu=(1e-7, 1e-5),
        count="evaluations",
        replicates=2,
    )
    for draw in draws(space, 50):
        Loop(parse_config(draw), objective).init()


def test_one_draw_of_eta_is_a_multiple_of_every_theory_step() -> None:
    space = zotune.search_space(dim=100, budget=1000)
    draw = draws(space, 1)[0]
    for estimator in (name for name, entry in ESTIMATORS.items() if entry.moments):
        for q in (1, 10, 100):
            config = parse_config(draw | {"estimator": estimator, "q": q})
            loop = Loop(config, build_problem({"name": "quadratic", "dim": 100}))
            plain = Loop(config.model_copy(update={"eta": None}), loop.objective)
            ratio = loop.lanes[0].rule.size(0, q) / plain.lanes[0].rule.size(0, q)
            assert ratio == pytest.approx(draw["eta"])


def test_where_smoothness_is_not_known_its_inverse_is_searched() -> None:
    found = draws(zotune.search_space(dim=10, budget=100, L="search"))
    assert {draw["L"] for draw in found} == {1.0}
    etas = [draw["eta"] for draw in found]
    assert min(etas) < 1e-5
    assert max(etas) > 10


def test_lists_are_chosen_from_and_single_entries_are_fixed() -> None:
    space = zotune.search_space(dim=10, budget=100, estimators=["avg"], q=[2, 5], seed=7)
    assert space["estimator"] == "avg"
    assert {draw["q"] for draw in draws(space)} == {2, 5}
    assert space["seed"] == 7


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"q": [1, 11]}, ConfigError, r"q must lie between 1 and 10 .*, got 11"),
        ({"q": (0, 5)}, ConfigError, r"q must lie between 1 and 10 .*, got \(0, 5\)"),
        ({"estimators": ["agv"]}, UnknownNameError, r"estimator 'agv' .*did you mean 'avg'"),
        ({"directions": ["x"]}, UnknownNameError, "directions 'x' is not known"),
        ({"dim": 0}, ConfigError, "dim must be a whole number of at least 1, got 0"),
        ({"budget": 1, "count": "evaluations"}, ConfigError, "does not cover one direction"),
        (
            {"replicats": 3},
            ConfigError,
            r"'replicats' is not a setting \(did you mean 'replicates'",
        ),
        ({"problem": "quadrtic"}, UnknownNameError, "did you mean 'quadratic'"),
    ],
)
def test_bad_input_is_refused_in_the_driver(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        zotune.search_space(**({"dim": 10, "budget": 100} | options))


def test_one_estimator_may_be_named_alone() -> None:
    space = zotune.search_space(dim=10, budget=100, estimators="avg")
    assert space["estimator"] == "avg"


def test_updates_and_steps_are_searched_like_estimators() -> None:
    problem = {"name": "quadratic", "dim": 12}
    objective = build_problem(problem)
    space = zotune.search_space(
        dim=12,
        budget=80,
        problem=problem,
        updates=["sgd", "nesterov", "lbfgs"],
        steps="auto",
        count="evaluations",
    )
    found = draws(space, 30)
    assert {draw["update"] for draw in found} == {"sgd", "nesterov", "lbfgs"}
    for draw in found[:10]:
        Loop(parse_config(draw), objective).init()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"updates": "lbfgs"}, "update 'lbfgs' takes lengths; give steps='auto'"),
        ({"steps": ["theory", "constant"]}, "'constant' takes a length"),
        ({"updates": "adma"}, r"update 'adma' is not known \(did you mean 'adam'"),
    ],
)
def test_updates_and_steps_that_do_not_go_together_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        zotune.search_space(dim=12, budget=80, **options)
