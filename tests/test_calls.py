"""A person's function is never called more often than the budget says, counted outside."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zotune
from zotune.blocksizes import BLOCK_SIZES
from zotune.config import parse_config
from zotune.core.differences import DIFFERENCES
from zotune.directions import DIRECTIONS
from zotune.errors import ConfigError
from zotune.estimators import ESTIMATORS
from zotune.loop import Loop
from zotune.loop.joining import joined
from zotune.runs.sources import Source
from zotune.steps import STEPS
from zotune.updates import UPDATES

DIM, BUDGET = 4, 61
SIZES = [1, 2, DIM, "auto", *({"rule": n, "max": DIM} for n in BLOCK_SIZES if n != "fixed")]
RULES = [(update, step) for update in UPDATES for step in STEPS]
TOLD = {"theory": {}, "auto": {}}
"""Step rules that need no eta."""


class Counted:
    """A bent bowl that counts its calls, and remembers where they were and what they gave."""

    def __init__(self) -> None:
        self.points: list[bytes] = []
        self.values: list[float] = []

    def __call__(self, x: np.ndarray) -> float:
        self.points.append((np.asarray(x, dtype=np.float64) + 0.0).tobytes())
        self.values.append(float(((x - 0.3) ** 2).sum() + (x[0] * x[1]) ** 2))
        return self.values[-1]

    @property
    def repeated(self) -> int:
        """Calls at a point that had been evaluated before."""
        return sum(many - 1 for many in Counter(self.points).values())


CONTINUOUS = ("gaussian", "sphere")
"""Directions that are not drawn from a finite set."""


def settings(estimator: str, difference: str, sizes: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """Every update with every step, each with the next block size."""
    for update, step in RULES:
        told: dict[str, Any] = {"estimator": estimator, "difference": difference}
        told |= {"update": update, "step": step, "q": next(sizes)}
        yield told | TOLD.get(step, {"eta": 0.01})


def checked(told: dict[str, Any], counted: Counted, run: zotune.Run) -> None:
    """The calls of a run are those that it says, and are within its budget."""
    assert len(counted.values) == run.nfev <= run.config.budget, told
    assert len(counted.values) > run.config.budget - 2 * DIM - 1, told
    assert {row["monitored"] for row in run.rows} == {0}, told
    assert run.best_loss == min(counted.values), told
    continuous = told.get("directions", "gaussian") in CONTINUOUS  # others are drawn twice
    if continuous and told["update"] != "sign":  # whose steps come back to where they were
        said = [int(one.value) for one in run.chosen.values() if one.setting == "repeats"]
        assert counted.repeated == sum(said), told


def minimized(told: dict[str, Any], **more: Any) -> None:
    counted = Counted()
    try:
        run = zotune.minimize(counted, [1.0] * DIM, budget=BUDGET, array="numpy", **told, **more)
    except ConfigError:  # an update without a theory step, a q that is not of the estimator
        assert not counted.values or "curvature" in told
        return
    checked(told, counted, run)


@pytest.mark.parametrize("difference", DIFFERENCES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_minimize_calls_no_function_beyond_the_budget(estimator: str, difference: str) -> None:
    for told in settings(estimator, difference, cycle(SIZES)):
        minimized(told)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("difference", DIFFERENCES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_minimize_calls_no_function_beyond_the_budget_for_any_block_size(
    estimator: str, difference: str, size: Any
) -> None:
    for directions in DIRECTIONS:
        for told in settings(estimator, difference, cycle([size])):
            minimized(told | {"directions": directions, "points": 7}, seconds=60.0)


@pytest.mark.parametrize("difference", DIFFERENCES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_ask_hands_out_no_more_points_than_the_budget_says(estimator: str, difference: str) -> None:
    for told in settings(estimator, difference, cycle(SIZES)):
        counted = Counted()
        try:
            m = zotune.Minimizer([1.0] * DIM, budget=BUDGET, **told)
        except ConfigError:
            continue
        while not m.done:
            points = m.ask()
            assert all(points.charged)
            m.tell([counted(x) for x in points])
        checked(told, counted, m.result)


@pytest.mark.parametrize("difference", DIFFERENCES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_trial_calls_no_function_beyond_the_budget(estimator: str, difference: str) -> None:
    for told in settings(estimator, difference, cycle(SIZES)):
        counted, row = Counted(), dict[str, Any]()
        Bound.target = zotune.objective(counted, DIM, start=[1.0] * DIM, array="numpy")
        try:
            trial = Bound({"budget": BUDGET, "report_every": 7, **told})
        except ConfigError:
            continue
        while not row.get("done"):
            row = trial.step()
        assert len(counted.values) == row["evaluations"] <= BUDGET, told
        assert (row["monitored"], row["looked"]) == (0, 0)


class Bound(zotune.ZOTrainable):
    """A trial in this process, bound to an objective as Ray Tune would bind it."""

    target: zotune.Objective

    def setup(self, config: dict[str, Any], **rest: Any) -> None:  # type: ignore[override]
        super().setup(config, source=Source(self.target), **rest)


@pytest.mark.parametrize("difference", DIFFERENCES)
@pytest.mark.parametrize("given", [{}, {"q": 2}, {"update": "sgd", "step": "constant", "eta": 0.1}])
def test_replicates_reports_and_early_ends_call_it_no_more_often(
    difference: str, given: dict[str, Any]
) -> None:
    for more in ({"replicates": 3}, {"target": 0.2}, {"on_report": print, "report_every": 1}):
        counted = Counted()
        told: dict[str, Any] = given | ({"difference": difference} if given else {}) | more
        run = zotune.minimize(counted, [1.0] * DIM, budget=BUDGET, array="numpy", **told)
        assert len(counted.values) == run.nfev <= BUDGET * run.config.replicates


@pytest.mark.parametrize("difference", DIFFERENCES)
@pytest.mark.parametrize("step", ["constant", "auto"])
def test_a_run_that_was_ended_and_continues_buys_no_point_twice(
    tmp_path: Path, difference: str, step: str
) -> None:
    counted = Counted()
    told: dict[str, Any] = {"q": 2, "difference": difference, "mu": 1e-4, "step": step}
    told |= {"eta": 0.05} if step == "constant" else {}
    for budget in (21, 44, BUDGET):
        run = zotune.minimize(
            counted, [1.0] * DIM, budget=budget, checkpoint=tmp_path / "run", array="numpy", **told
        )
        assert len(counted.values) == run.nfev <= budget
    assert counted.repeated == 0


def test_spsa_by_hand_keeps_its_budget() -> None:
    """The example of coming-from.md."""
    counted = Counted()
    told: dict[str, Any] = {"estimator": "avg", "q": 1, "directions": "rademacher", "mu": 1e-3}
    told |= {"difference": "central", "update": "sgd", "step": "sqrt-decay", "eta": 0.2}
    run = zotune.minimize(counted, [0.0, 0.0], budget=400, array="numpy", **told)
    assert len(counted.values) == run.nfev == 400


def test_with_central_differences_a_curve_point_is_the_mean_of_what_was_paid() -> None:
    counted = Counted()
    told: dict[str, Any] = {"estimator": "avg", "q": 2, "mu": 1e-3, "difference": "central"}
    told |= {"update": "sgd", "step": "constant", "eta": 0.05}
    run = zotune.minimize(counted, [1.0] * DIM, budget=30, array="numpy", **told)
    losses = {row["evaluations"]: row["loss"] for row in run.rows}
    values = counted.values
    assert losses[0] == values[0]
    for first in (5, 9, 13):
        assert losses[first] == pytest.approx(np.mean(values[first : first + 4]), rel=1e-12)
    assert losses[30] == values[-1]


def test_a_function_declared_cheap_is_looked_at_beside_the_budget() -> None:
    counted = Counted()
    cheap = zotune.objective(counted, DIM, start=[1.0] * DIM, cheap=True, array="numpy")
    run = zotune.minimize(cheap, budget=BUDGET, q=2, difference="central")
    monitored = run.rows[-1]["monitored"]
    assert monitored > 0
    assert len(counted.values) == run.nfev + monitored > BUDGET


@pytest.mark.parametrize("bounds", [None, (0.5, 2.0)])
def test_the_automatic_method_repeats_a_point_only_to_see_noise(bounds: Any) -> None:
    counted = Counted()
    told: dict[str, Any] = {} if bounds is None else {"bounds": bounds}
    run = zotune.minimize(counted, [1.0] * 8, budget=300, array="numpy", **told)
    assert len(counted.values) == run.nfev <= 300
    assert 0 < counted.repeated == int(run.chosen["repeats"].value) < 12
    assert run.best_loss == min(counted.values)


def test_a_search_among_known_points_ends() -> None:
    counted, width = Counted(), 2.0**-52
    run = zotune.minimize(
        counted, [1.0] * 2, budget=200, array="numpy", bounds=(1.0, 1.0 + width), scale=1.0
    )
    assert len(counted.values) == run.nfev <= 200


@pytest.mark.parametrize("told", [{}, {"q": 2}, {"q": 3, "difference": "central"}])
def test_what_a_run_repeats_after_an_exception_is_counted_and_said(
    tmp_path: Path, told: dict[str, Any]
) -> None:
    calls, broken = 0, [13, 30]

    def simulator(x: np.ndarray) -> float:
        nonlocal calls
        calls += 1
        if calls in broken:
            raise OSError("no licence")
        return float((x**2).sum())

    again = partial(zotune.minimize, simulator, [1.0] * 4, budget=50, array="numpy", **told)
    for _ in broken:
        with pytest.raises(OSError, match="no licence"):
            again(checkpoint=tmp_path / "run")
    run = again(checkpoint=tmp_path / "run")
    assert run.repeated >= len(broken)
    assert calls == run.nfev + run.repeated
    assert f"{run.repeated} evaluations were repeated after a failure" in run.message
    assert again(checkpoint=tmp_path / "run").repeated == run.repeated
    assert zotune.load_run(tmp_path / "run").repeated == run.repeated
    assert calls == run.nfev + run.repeated
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


KILLED = """
import os, signal, sys
import numpy as np
import zotune

def simulator(x: np.ndarray) -> float:
    with open("calls", "ab", buffering=0) as file:
        file.write(b".")
        if file.tell() == 33:
            os.kill(os.getpid(), signal.SIGKILL)
    return float((x**2).sum())

run = zotune.minimize(simulator, [1.0] * 4, budget=50, checkpoint="run", **eval(sys.argv[1]))
print(run.nfev, run.repeated)
"""


@pytest.mark.slow
@pytest.mark.parametrize("told", ["{}", "{'q': 2, 'difference': 'central'}"])
def test_what_a_killed_run_repeats_is_counted(tmp_path: Path, told: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    for code in (-9, 0):
        done = subprocess.run(
            [sys.executable, str(script), told], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == code, done.stderr
    nfev, repeated = map(int, done.stdout.split())
    assert len((tmp_path / "calls").read_bytes()) == nfev + repeated
    assert 0 < repeated <= 33
    assert nfev <= 50


@pytest.mark.parametrize("step", ["constant", "auto"])
def test_a_run_that_joins_a_better_point_knows_its_value(step: str) -> None:
    counted = Counted()
    target = zotune.objective(counted, DIM, start=[1.0] * DIM, array="numpy")
    told: dict[str, Any] = {"estimator": "avg", "q": 2, "budget": BUDGET, "update": "sgd"}
    told |= {"step": step, "mu": 1e-4} | TOLD.get(step, {"eta": 0.02})
    slow, quick = (Loop(parse_config(told | {"seed": seed}), target) for seed in (0, 1))
    state, other = slow.advance(slow.init(), 10), quick.advance(quick.init(), 40)
    before = counted.repeated
    slow.advance(joined(slow, state, other), 30)
    assert counted.repeated == before


@pytest.mark.parametrize("difference", DIFFERENCES)
@pytest.mark.parametrize("q", [1, 2, 3])
def test_the_last_point_is_evaluated_within_the_budget(q: int, difference: str) -> None:
    """Otherwise the last loss would be that of the point before."""
    counted = Counted()
    told: dict[str, Any] = {"estimator": "avg", "q": q, "step": "constant", "eta": 0.01}
    told |= {"difference": difference, "budget": BUDGET, "array": "numpy"}
    run = zotune.minimize(counted, [1.0] * DIM, **told)
    assert len(counted.values) == run.nfev <= BUDGET
    assert counted.points[-1] == run.x[0].numpy().tobytes()
    assert run.rows[-1]["loss"] == counted.values[-1]
