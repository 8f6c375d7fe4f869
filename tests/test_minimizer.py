"""Ask and tell: the same run, evaluated by somebody else."""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ray import cloudpickle
from ray.tune.search import Searcher

import zotune
from zotune.errors import CheckpointError, ConfigError

START = [-1.2, 1.0, 0.5]
WAYS: dict[str, dict[str, Any]] = {
    "auto": {},
    "bounded": {"bounds": (-1.0, [0.9, 2.0, 3.0])},
    "theory": {"q": 2, "L": 900.0},
    "estimated": {"q": 3, "estimator": "align", "step": "theory", "eta": 0.3},
    "averaging": {"estimator": "avg"},
    "bounded steps": {"estimator": "align", "q": 2, "bounds": (-1.0, [0.9, 2.0, 3.0])},
    "quasi-Newton": {"update": "lbfgs"},
    "central": {"q": 2, "difference": "central", "step": "constant", "eta": 1e-4},
    "momentum": {"q": 2, "step": "constant", "eta": 1e-5, "momentum": 0.5},
}


def valley(x: Any) -> float:
    a, b, c = (float(value) for value in x)
    return 100 * (b - a * a) ** 2 + (1 - a) ** 2 + (c + a) ** 4


def finished(minimizer: zotune.Minimizer) -> zotune.Minimizer:
    while not minimizer.done:
        minimizer.tell([valley(x) for x in minimizer.ask()])
    return minimizer


@pytest.mark.parametrize("way", sorted(WAYS))
def test_the_result_says_of_itself_what_minimize_s_says(tmp_path: Path, way: str) -> None:
    def walled(x: Any) -> float:
        return math.inf if float(x[1]) > 1.01 else valley(x)

    minimizer = zotune.Minimizer(START, budget=40, **WAYS[way])
    while not minimizer.done:
        minimizer.tell([walled(x) for x in minimizer.ask()])
    run = zotune.minimize(walled, START, budget=40, checkpoint=tmp_path / "run", **WAYS[way])
    for other in (minimizer.result, zotune.load_run(tmp_path / "run")):
        said = (other.message, other.success, other.failed, other.nfev, other.status, other.chosen)
        assert said == (run.message, run.success, run.failed, run.nfev, run.status, run.chosen)
        assert repr(other) == repr(run)


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_minimizer_is_pickled_between_any_two_values(way: str, copied: Any) -> None:
    minimizer = zotune.Minimizer(START, budget=40, **WAYS[way])
    while not minimizer.done:
        asked = minimizer.ask()
        if len(asked) > 1:
            minimizer.tell([valley(asked[1])], [asked.ids[1]])
        minimizer = copied(minimizer)
        asked = minimizer.ask()
        minimizer.tell([valley(x) for x in asked])
    run = zotune.minimize(valley, START, budget=40, **WAYS[way])
    assert repr(copied(minimizer).result) == repr(run)
    assert torch.equal(minimizer.result.x, run.x)


def test_a_searcher_that_holds_a_minimizer_goes_through_tunes_snapshots() -> None:
    class Holding(Searcher):
        def __init__(self) -> None:
            super().__init__(metric="loss", mode="min")
            self.minimizer = zotune.Minimizer(START, budget=40)

    holding = Holding()
    asked = holding.minimizer.ask()
    holding.minimizer.tell([valley(x) for x in asked])
    again = cloudpickle.loads(cloudpickle.dumps(holding))
    assert again.minimizer.ask().ids == holding.minimizer.ask().ids
    assert np.array_equal(again.minimizer.ask(), holding.minimizer.ask())


def test_a_result_before_the_end_says_that_the_run_goes_on(tmp_path: Path) -> None:
    minimizer = zotune.Minimizer(START, budget=40)
    minimizer.tell([valley(x) for x in minimizer.ask()])
    assert (minimizer.result.message, minimizer.result.success) == ("the run continues", False)
    trial = zotune.ZOTrainable({"problem": "rosenbrock", "budget": 90})
    trial.step()
    trial.save_checkpoint(str(tmp_path))
    begun = zotune.load_run(tmp_path)
    assert (begun.message, begun.success, begun.status) == ("the run continues", False, "running")


@pytest.mark.parametrize("way", sorted(WAYS))
def test_asking_and_telling_gives_the_bits_of_minimize(way: str) -> None:
    told = finished(zotune.Minimizer(START, budget=90, **WAYS[way])).result
    run = zotune.minimize(valley, START, budget=90, **WAYS[way])
    assert torch.equal(told.x, run.x)
    assert torch.equal(told.best_x, run.best_x)
    assert told.rows == run.rows
    assert told.status == run.status


@pytest.mark.parametrize("way", sorted(WAYS))
def test_charged_points_are_as_many_as_the_run_has_spent(way: str) -> None:
    minimizer, charged = zotune.Minimizer(START, budget=60, **WAYS[way]), 0
    ids: list[int] = []
    while not minimizer.done:
        points = minimizer.ask()
        assert np.asarray(points).shape == (len(points), 3)
        assert len(points.ids) == len(points.charged) == len(list(points))
        charged += sum(points.charged)
        ids += points.ids
        minimizer.tell([valley(x) for x in points])
    assert charged == minimizer.result.state.ledger.evaluations
    assert ids == list(range(len(ids)))


@given(way=st.sampled_from(sorted(WAYS)), seed=st.integers(0, 10**6))
def test_answers_may_come_in_parts_and_out_of_order_and_be_lost_with_the_process(
    way: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Killed at any moment after a save: what was not saved is asked for again, charged once."""
    draw, path = random.Random(seed), tmp_path_factory.mktemp("saved") / "minimizer"
    minimizer = zotune.Minimizer(START, budget=40, **WAYS[way])
    minimizer.save(path)
    while not minimizer.done:
        points = minimizer.ask()
        some = draw.sample(range(len(points)), draw.randint(1, len(points)))
        minimizer.tell([valley(points[i]) for i in some], [points.ids[i] for i in some])
        if draw.random() < 0.3:
            minimizer.save(path)
        if draw.random() < 0.1:
            minimizer = zotune.Minimizer.load(path)
    whole = finished(zotune.Minimizer(START, budget=40, **WAYS[way])).result
    assert torch.equal(minimizer.result.x, whole.x)
    assert minimizer.result.state.ledger == whole.state.ledger
    assert minimizer.result.rows == whole.rows


def test_what_is_told_wrongly_is_refused(tmp_path: Path) -> None:
    minimizer = zotune.Minimizer(START, budget=30)
    with pytest.raises(ConfigError, match="there is no result before the value at the start"):
        _ = minimizer.result
    with pytest.raises(ConfigError, match="one value a point: 1 points, got 2 values"):
        minimizer.tell([1.0, 2.0])
    with pytest.raises(ConfigError, match="point 7 is not asked for now"):
        minimizer.tell([1.0], [7])
    with pytest.raises(ConfigError, match="make one Minimizer for each"):
        zotune.Minimizer(START, budget=30, replicates=2)
    done = finished(minimizer)
    with pytest.raises(ConfigError, match="this Minimizer is done"):
        done.ask()
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(CheckpointError, match="is not a whole Minimizer"):
        zotune.Minimizer.load(tmp_path / "other")


@pytest.mark.parametrize("workers", [1, 3])
def test_a_pool_of_processes_evaluates_what_is_asked_for(workers: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    minimizer = zotune.Minimizer(START, budget=60)
    evaluate: Callable[[Any], float] = valley
    with ThreadPoolExecutor(workers) as pool:
        while not minimizer.done:
            minimizer.tell(list(pool.map(evaluate, minimizer.ask())))
    assert torch.equal(minimizer.result.x, zotune.minimize(valley, START, budget=60).x)
