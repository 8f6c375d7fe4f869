"""Ray workers inside a run: the same run for every number of them, whatever happens to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import zotune
from tests.evaluators import objectives
from tests.evaluators.objectives import valley
from tests.evaluators.test_seam import LOOPS, finished, same_weights
from tests.instrument import minimize
from tests.weights.toy import assert_same
from zotune.core.state import State
from zotune.errors import ConfigError, ObjectiveError
from zotune.evaluators import dealing
from zotune.evaluators.ray_workers import RayWorkers, Worker
from zotune.evaluators.serial import SERIAL
from zotune.loop import Loop

START = [-1.2, 1.0, 0.5]
SMALL = {"cpu": 0.25}
SETTINGS = {"q": 3, "difference": "central", "step": "constant", "eta": 1e-4, "budget": 30}
MOST = 4


def nothing() -> None:
    """What a worker's objective is before a test gives it one."""


@pytest.fixture(scope="module")
def pool(shared_ray: None) -> Iterator[RayWorkers]:
    pool = RayWorkers(MOST, nothing, share=SMALL)
    yield pool
    pool.close()


def copy_of(make: Any, way: str, objective: None) -> Loop:
    """A worker's loop."""
    loop: Loop = make(way, SERIAL)
    return loop


def served(pool: RayWorkers, everyone: list[Worker], count: int, make: Any, way: str) -> Loop:
    """A loop that some of the pool's workers serve."""
    loop: Loop = make(way, SERIAL)
    pool.workers = everyone[:count]
    pool.attend(loop, partial(copy_of, make, way))
    loop.answer_with(pool)
    return loop


@pytest.mark.parametrize(("make", "way"), LOOPS)
def test_one_two_and_four_workers_make_the_same_run(pool: RayWorkers, make: Any, way: str) -> None:
    everyone = list(pool.workers)
    ends: list[tuple[Loop, State]] = []
    try:
        for count in (1, 2, 4):
            loop = served(pool, everyone, count, make, way)
            ends.append((loop, finished(loop, loop.init())))
    finally:
        pool.workers = everyone
    for loop, end in ends[1:]:
        assert_same(end, ends[0][1])
        assert same_weights(loop, ends[0][0])
    if make.__name__ != "loop_on_batched":
        alone = make(way, SERIAL)
        assert_same(ends[0][1], finished(alone, alone.init()))
        assert same_weights(alone, ends[0][0])
    assert pool.rejoined == pool.deaths == 0


def minimized(fn: Any, folder: Path, workers: int = 2, **changes: Any) -> zotune.Run:
    told = SETTINGS | {"data": folder, "workers": workers, "worker": SMALL} | changes
    return minimize(fn, START, progress=False, **told)


@pytest.fixture(scope="module")
def undisturbed() -> zotune.Run:
    return minimize(valley, START, progress=False, **SETTINGS)


def test_a_killed_worker_is_replaced_and_nothing_is_charged_twice(
    shared_ray: None, tmp_path: Path, undisturbed: zotune.Run
) -> None:
    run = minimized(objectives.dying, tmp_path)
    assert (tmp_path / "died").exists()
    assert torch.equal(run.x, undisturbed.x)
    assert run.state.ledger == undisturbed.state.ledger


def test_what_a_killed_worker_repeats_is_counted_and_said(shared_ray: None, tmp_path: Path) -> None:
    run = minimized(objectives.dying_and_called, tmp_path)
    calls = len((tmp_path / "calls").read_bytes())
    assert run.nfev < calls <= run.nfev + run.repeated
    assert "repeated after a failure, beside the budget" in run.message


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"q": 2}, {"difference": "central", "q": 3}])
def test_workers_call_a_function_no_more_often_than_the_budget_says(
    shared_ray: None, tmp_path: Path, settings: dict[str, Any]
) -> None:
    told = {"data": tmp_path, "workers": 2, "worker": SMALL, "progress": False}
    run = zotune.minimize(objectives.called, START, budget=45, **told, **settings)
    assert len((tmp_path / "calls").read_bytes()) == run.nfev <= 45
    assert run.repeated == 0


@pytest.mark.slow
def test_the_parts_of_a_straggler_are_dealt_again_and_the_first_answer_counts(
    shared_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dealing, "LEAST", 0.05)
    cheap, fn = (
        zotune.objective(valley, 3, cheap=True),
        partial(objectives.hanging, folder=tmp_path),
    )
    alone = minimize(cheap, START, progress=False, **SETTINGS)
    told = SETTINGS | {"workers": 2, "worker": SMALL, "progress": False}
    run = minimize(zotune.objective(fn, 3, cheap=True), START, **told)
    assert (tmp_path / "hung").exists()
    (tmp_path / "over").touch()
    assert torch.equal(run.x, alone.x)
    assert run.state.ledger == alone.state.ledger
    assert run.repeated > 0


@pytest.mark.slow
def test_the_parts_of_a_straggler_are_waited_for_unless_calls_are_cheap(
    shared_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dealing, "LEAST", 0.05)
    run = minimized(objectives.slow_once, tmp_path)
    assert len((tmp_path / "calls").read_bytes()) == run.nfev
    assert run.repeated == 0


@pytest.mark.slow
def test_an_objective_that_ends_every_worker_ends_the_run(shared_ray: None, tmp_path: Path) -> None:
    with pytest.raises(ObjectiveError, match="has ended 3 workers in a row"):
        minimized(objectives.deadly, tmp_path, workers=1)


def test_what_an_objective_raises_ends_the_run_with_its_traceback(
    shared_ray: None, tmp_path: Path
) -> None:
    with pytest.raises(ArithmeticError, match="did not converge") as raised:
        minimized(objectives.raising, tmp_path, workers=1)
    assert "in raising" in str(raised.value)


def test_failures_are_rejected_points_and_counted(shared_ray: None) -> None:
    told: dict[str, Any] = {"budget": 40, "failures": (ArithmeticError,), "progress": False}
    alone = minimize(objectives.often_failing, START, **told)
    run = minimize(objectives.often_failing, START, workers=2, worker=SMALL, **told)
    assert run.failed == alone.failed > 0
    assert torch.equal(run.best_x, alone.best_x)


def test_a_factory_opens_its_simulator_once_a_worker(
    shared_ray: None, tmp_path: Path, undisturbed: zotune.Run
) -> None:
    told = SETTINGS | {"data": tmp_path, "workers": 2, "worker": SMALL, "progress": False}
    run = minimize(zotune.factory(objectives.simulator), **told)
    assert torch.equal(run.x, undisturbed.x)
    opened = {file.name for file in tmp_path.glob("opened-*")}  # a second time would have raised
    assert 1 <= len(opened) <= 2  # a run may end before its second worker is there
    assert f"opened-{os.getpid()}" not in opened
    with pytest.raises(ObjectiveError, match="no licence for the simulator"):
        minimize(zotune.factory(objectives.broken_simulator), **told | {"workers": 1})


def test_web_calls_wait_side_by_side_in_one_worker(
    shared_ray: None, tmp_path: Path, undisturbed: zotune.Run
) -> None:
    run = minimized(objectives.from_the_web, tmp_path, workers=1)
    assert torch.equal(run.x, undisturbed.x)


def test_workers_that_ray_has_no_room_for_are_refused(shared_ray: None) -> None:
    with pytest.raises(ConfigError, match="workers=9 want 9 CPU, and Ray has 2; lower workers"):
        minimize(valley, START, workers=9, **SETTINGS)
    with pytest.raises(ConfigError, match="worker must be numbers of cpu and gpu"):
        minimize(valley, START, workers=1, worker={"cpus": 1}, **SETTINGS)
    with pytest.raises(ConfigError, match="workers must be greater than or equal to 0"):
        minimize(valley, START, workers=-1, **SETTINGS)


@pytest.mark.slow
def test_a_run_with_workers_is_resumed_by_another_number_of_them(
    shared_ray: None, tmp_path: Path, undisturbed: zotune.Run
) -> None:
    file = tmp_path / "run"
    stop: Callable[[dict[str, Any]], None] = stop_at_16
    with pytest.raises(KeyboardInterrupt):
        minimized(objectives.counted, tmp_path, checkpoint=file, on_report=stop, report_every=8)
    assert file.exists()
    run = minimized(objectives.counted, tmp_path, workers=1, checkpoint=file, report_every=8)
    assert torch.equal(run.x, undisturbed.x)


def stop_at_16(row: dict[str, Any]) -> None:
    if row["spent"] >= 16:
        raise KeyboardInterrupt
