"""``scipy.optimize.minimize(…, method=zotune.scipy)``: SciPy's own front door."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, OptimizeResult, minimize, rosen

import zotune
from zotune.errors import ConfigError

START = [-1.2, 1.0, 0.5]


class Counted:
    """Rosenbrock's function, moved, that counts its calls and keeps their points."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []

    def __call__(self, x: np.ndarray, by: float = 0.0) -> float:
        assert isinstance(x, np.ndarray)
        self.seen.append(x.copy())
        x -= by  # SciPy's functions may
        return float(rosen(x))


def found(f: Any = None, **given: Any) -> OptimizeResult:
    options = {"budget": 300} | given.pop("options", {})
    x0 = given.pop("x0", START)
    return minimize(f or Counted(), x0, method=zotune.scipy, options=options, **given)


def test_the_result_is_that_of_minimize_bit_for_bit() -> None:
    f = Counted()
    res = found(f)
    run = zotune.minimize(lambda x: float(rosen(x)), START, budget=300, array="numpy")
    assert np.array_equal(res.x, run.best_x.numpy())
    assert (res.fun, res.nfev, res.message) == (run.best_loss, run.nfev, run.message)
    assert (res.success, res.status) == (True, 0)
    assert res.nfev == len(f.seen) <= 300
    assert rosen(res.x) == res.fun == res.run.best_loss


def test_arguments_are_passed_on() -> None:
    res = found(args=(2.0,), x0=[1.0, 1.0], options={"budget": 300})
    assert res.x == pytest.approx([3.0, 3.0], abs=1e-3)


@pytest.mark.parametrize(
    "bounds",
    [
        [(-2, 0.5), (None, None), (0, None)],
        Bounds([-2, -np.inf, 0], [0.5, np.inf, np.inf]),
        np.array([[-2, 0.5], [-np.inf, np.inf], [0, np.inf]]),
    ],
)
def test_every_form_of_bounds_keeps_every_point_inside(bounds: Any) -> None:
    f = Counted()
    res = found(f, bounds=bounds)
    seen = np.array(f.seen)
    assert seen[:, 0].min() >= -2
    assert seen[:, 0].max() <= 0.5
    assert seen[:, 2].min() >= 0
    assert res.x[0] == 0.5


@pytest.mark.parametrize("name", ["budget", "maxfev", "maxfun"])
def test_the_budget_has_scipy_s_names_too(name: str) -> None:
    f = Counted()
    assert minimize(f, START, method=zotune.scipy, options={name: 30}).nfev == len(f.seen) == 30


def test_a_callback_sees_the_lowest_value_in_both_of_scipy_s_forms_and_may_end_the_run() -> None:
    points: list[np.ndarray] = []
    values: list[float] = []

    def ends(intermediate_result: OptimizeResult) -> None:
        values.append(intermediate_result.fun)
        assert rosen(intermediate_result.x) == intermediate_result.fun
        if len(values) == 5:
            raise StopIteration

    f = Counted()
    res = found(f, callback=ends)
    assert (res.status, res.success) == (99, False)
    assert res.message.startswith("`callback` raised `StopIteration`")
    assert len(values) == 5
    assert res.fun == values[-1] == min(values)
    assert res.nfev == len(f.seen) < 150
    assert found(callback=points.append).success
    assert len(points) >= 10
    assert [float(rosen(x)) for x in points[:5]] == values


def test_other_arguments_are_those_of_minimize() -> None:
    def fails(x: np.ndarray) -> float:
        if x[0] > 0.9:
            raise FloatingPointError
        return float(rosen(x))

    res = found(fails, options={"failures": (FloatingPointError,), "seed": 3})
    assert res.run.failed > 0
    assert math.isfinite(res.fun)
    res = found(tol=1e-3, options={"budget": 5000})
    assert "ftol = 0.001" in res.message
    assert found(options={"target": 1.0}).message == "the target 1 was reached"


def test_derivatives_are_not_used_and_said_to_be_left_out() -> None:
    with pytest.warns(RuntimeWarning, match="does not use derivatives"):
        res = found(jac=lambda x: x)
    assert res.fun == found().fun


def test_what_cannot_be_done_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="takes no constraints, only bounds; add a penalty"):
        found(constraints={"type": "ineq", "fun": lambda x: x[0]})
    with pytest.raises(ConfigError, match="needs one budget, got 0; give options="):
        minimize(rosen, START, method=zotune.scipy)
    with pytest.raises(ConfigError, match="needs one budget, got 2"):
        found(options={"maxfev": 9})
    with pytest.raises(ConfigError, match="maxiter"):
        found(options={"maxiter": 9})
