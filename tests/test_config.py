"""The configuration, and one line for what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import Bounds

import zotune
from zotune.config import parse_config
from zotune.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "budget is missing; give budget=…"),
        ({"budget": 0}, "budget must be greater than or equal to 1, got 0"),
        ({"budget": 10, "q": 0}, "q must be a number from 1 on, .* got 0"),
        ({"budget": 10, "q": 2.5}, "q must be a number from 1 on, .* got 2.5"),
        ({"budget": 10, "mu": 0}, "mu must be greater than 0, got 0"),
        ({"budget": 10, "mu": float("nan")}, "mu must be a finite number, got nan"),
        ({"budget": 10, "eta": -1}, "eta must be greater than 0, got -1"),
        ({"budget": 10, "estimator": "algin"}, r"estimator 'algin' .*did you mean 'align'\?"),
        ({"budget": 10, "directions": "xyz"}, "directions 'xyz' is not known; known: coordinate, "),
        (
            {"budget": 10, "difference": "forwards"},
            r"difference 'forwards' .*did you mean 'forward'",
        ),
        ({"budget": 10, "step": "sqrt"}, r"step 'sqrt' is not known"),
        ({"budget": 10, "count": "calls"}, "count 'calls' is not known.*evaluations"),
        (
            {"budget": 10, "estimater": "avg"},
            r"'estimater' is not a setting \(did you mean 'estima",
        ),
        ({"budget": 10, "replicates": 0}, "replicates must be greater than or equal to 1, got 0"),
    ],
)
def test_a_bad_setting_is_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_config(settings)
    assert "\n" not in str(caught.value)


def test_a_problem_is_stored_as_a_mapping() -> None:
    assert parse_config({"budget": 10, "problem": "quadratic"}).problem == {"name": "quadratic"}


@pytest.mark.parametrize(("budget", "every"), [(5, 1), (16, 1), (100, 6), (20_000, 1250)])
def test_a_run_reports_at_a_sixteenth_of_its_budget(budget: int, every: int) -> None:
    assert parse_config({"budget": budget}).reports_at == every


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse_config({"budget": 10}).q = 3


@pytest.mark.parametrize(("key", "value"), [("budget", "10"), ("mu", True), ("eta", "1e-3")])
def test_a_number_is_neither_a_word_nor_a_yes(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{key} must be a number, got {value!r}"):
        parse_config({"budget": 10, key: value})


@pytest.mark.parametrize("sides", [(0.5, 2.0), ([0.5, -1.0], [2.0, np.inf])])
def test_bounds_of_scipy_are_the_same_as_two_sides(sides: Any) -> None:
    def f(x: np.ndarray) -> float:
        return float((x**2).sum())

    bounds = Bounds(*sides)
    runs = [zotune.minimize(f, [1.0, 1.0], budget=40, bounds=each) for each in (bounds, sides)]
    assert torch.equal(runs[0].x, runs[1].x)
    assert float(runs[0].best_x[0]) == 0.5
    asked = zotune.Minimizer([1.0, 1.0], budget=40, bounds=bounds, q=2)
    assert (np.asarray(asked.ask()) >= bounds.lb).all()
