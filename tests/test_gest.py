"""A generator of gest-api that suggests the points of a Minimizer."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

import zotune
from tests.asked import BUDGET, asked_points, valley
from zotune.errors import ConfigError

pytest.importorskip("gest_api")
from gest_api.generator import Generator
from gest_api.vocs import VOCS


def vocs(**options: Any) -> VOCS:
    told = {
        "variables": {"x": [-2.0, 2.0], "y": [-1.0, 3.0]},
        "objectives": {"f": "MINIMIZE"},
        "constants": {"a": 7},
    }
    return VOCS(**(told | options))


def results(points: list[dict[str, Any]], sign: float = 1.0) -> list[dict[str, Any]]:
    return [p | {"f": sign * valley(p["x"], p["y"])} for p in points]


def generator(told: VOCS | None = None, **settings: Any) -> zotune.gest.ZotuneGenerator:
    return zotune.gest.ZotuneGenerator(told or vocs(), budget=BUDGET, **settings)


@pytest.mark.parametrize(("goal", "sign"), [("MINIMIZE", 1.0), ("MAXIMIZE", -1.0)])
def test_its_points_are_those_of_a_minimizer_bit_for_bit(goal: str, sign: float) -> None:
    made, found = generator(vocs(objectives={"f": goal})), []
    assert isinstance(made, Generator)
    while points := made.suggest(None):
        found += [[p["x"], p["y"]] for p in points]
        assert {p["a"] for p in points} == {7}
        made.ingest(results(points, sign)[::-1])
        made = pickle.loads(pickle.dumps(made))
    made.finalize()
    assert found == asked_points()
    assert valley(**made.best) == made.run.best_loss


def test_points_are_taken_and_told_one_by_one_too() -> None:
    made, found = generator(), []
    for _ in asked_points():
        (point,) = made.suggest(1)
        found.append([point["x"], point["y"]])
        made.ingest(results([point]))
    assert found == asked_points()
    assert made.suggest(None) == []
    with pytest.raises(ValueError, match="0 points can be evaluated now, got num_points=1; the b"):
        made.suggest(1)


def test_a_default_value_is_the_start_and_a_result_without_a_value_rejects_its_point() -> None:
    variables = {
        "x": {"type": "ContinuousVariable", "domain": [-2.0, 2.0], "default_value": -1.0},
        "y": [-1.0, 3.0],
    }
    made, number = generator(vocs(variables=variables)), 0
    while points := made.suggest():
        assert number or (points[0]["x"], points[0]["y"]) == (-1.0, 1.0)
        for point in results(points):
            number += 1
            made.ingest([point | {"f": math.nan if number % 9 == 5 else point["f"]}])
    assert made.run.failed == len(range(5, number + 1, 9))


def test_points_out_are_not_suggested_twice_and_unknown_ids_are_errors() -> None:
    made = generator()
    points = made.suggest(None)
    assert made.suggest(None) == []
    with pytest.raises(ValueError, match=r"0 points can be evaluated now.*ingest the results"):
        made.suggest(1)
    with pytest.raises(ValueError, match=r"needs the _id of a suggested point .*, got 99"):
        made.ingest([{"x": 0.0, "y": 0.0, "f": 1.0, "_id": 99}])
    with pytest.raises(ValueError, match="other points cannot be taken"):
        made.ingest([{"x": 0.0, "y": 0.0, "f": 1.0}])
    made.ingest(results(points))
    with pytest.raises(ValueError, match="without a result"):
        made.ingest(results(points))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"objectives": {"f": "EXPLORE"}}, "needs one objective to minimise or maximise"),
        ({"objectives": {"f": "MINIMIZE", "g": "MINIMIZE"}}, "combine several into one"),
        ({"constraints": {"c": ["LESS_THAN", 0.0]}}, "takes no constraints, got c; add a penalty"),
        ({"variables": {"x": {1, 2}}}, "x must be a ContinuousVariable with finite bounds"),
        ({"variables": {"x": "CONTEXTUAL"}}, "x must be a ContinuousVariable"),
        ({"variables": {"x": [0.0, math.inf]}}, "x must be a ContinuousVariable with finite"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_line(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        generator(vocs(**options))
    assert "\n" not in str(error.value)
