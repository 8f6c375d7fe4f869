"""Whoever evaluates the parts of a run, in whatever order: the run is the same."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import zotune
from tests.conformance.resuming import check_killed, finished, same_weights
from tests.conftest import CountingBowl
from tests.evaluators.shuffled import Shuffled
from tests.instrument import parse_config
from tests.weights.toy import Toy, assert_same, settings
from zotune.config import CHOICES
from zotune.evaluators import SERIAL, Evaluator
from zotune.iterates.parts import cut
from zotune.loop import Loop
from zotune.objectives import build_problem

WAYS: dict[str, dict[str, Any]] = {
    "forward": {"q": 4, "L": 3.0},
    "central": {"q": 3, "difference": "central", "step": "constant", "eta": 0.05},
    "replayed": {"q": 4, "L": 3.0, "block_bytes": 1},
    "estimated": {"q": 3, "eta": 0.5},
    "replicates": {"q": 2, "L": 3.0, "replicates": 3},
    "diverging": {"q": 2, "step": "constant", "eta": 1e150, "replicates": 2},
    "adam": {"q": 2, "update": "adam", "step": "constant", "eta": 0.01},
    "auto": {**dict.fromkeys(CHOICES, "auto"), "count": "evaluations"},
    "searched": {"estimator": "avg", "q": 3, "step": "auto", "count": "evaluations"},
    "bounded": {"q": 3, "L": 3.0, "bounds": (-1.0, 0.5), "replicates": 2},
    "bounded both ways": {"q": 3, "step": "auto", "bounds": (-1.0, 0.5), "difference": "central"},
}


def loop_on_vectors(way: str, evaluator: Evaluator) -> Loop:
    bowl = zotune.objective(CountingBowl(), dim=10, name="bowl")
    config = {"budget": 40, "report_every": 10, "problem": {"name": "bowl", "dim": 10}}
    return Loop(parse_config(config | WAYS[way]), bowl, evaluator=evaluator)


def loop_on_batched(name: str, evaluator: Evaluator) -> Loop:
    problem = {"name": name, "dim": 200}
    told = {"budget": 60, "report_every": 15, "q": 6, "replicates": 2, "problem": problem}
    return Loop(parse_config(told), build_problem(problem), evaluator=evaluator)


def loop_on_weights(memory: str, evaluator: Evaluator) -> Loop:
    momentum = 0.5 if memory == "fast" else 0.0
    config = settings(memory=memory, report_every=9, momentum=momentum, difference="central")
    return Loop(parse_config(config), Toy(torch.bfloat16), evaluator=evaluator)


LOOPS = [
    *((loop_on_vectors, way) for way in WAYS),
    *((loop_on_batched, name) for name in ("quadratic", "stochastic-logistic")),
    *((loop_on_weights, memory) for memory in ("fast", "lean")),
]
EVERY_LOOP = pytest.mark.parametrize(("make", "way"), LOOPS)


@EVERY_LOOP
def test_the_order_of_evaluations_does_not_change_a_run(make: Any, way: str) -> None:
    one, other = make(way, Shuffled(1)), make(way, Shuffled(2))
    assert_same(finished(one, one.init()), finished(other, other.init()))
    assert same_weights(one, other)


@pytest.mark.parametrize(("make", "way"), [loop for loop in LOOPS if loop[0] != loop_on_batched])
def test_points_evaluated_one_by_one_have_the_bits_of_this_process(make: Any, way: str) -> None:
    one, other = make(way, Shuffled(1)), make(way, SERIAL)
    assert_same(finished(one, one.init()), finished(other, other.init()))
    assert same_weights(one, other)


@EVERY_LOOP
def test_killed_at_any_evaluation_and_resumed_it_is_the_same_run(
    make: Any, way: str, tmp_path: Path
) -> None:
    check_killed(partial(make, way), tmp_path)


def test_requests_are_cut_alike_however_many_points_there_are() -> None:
    assert cut([0, 2], 5, 2) == [
        *(([row], columns) for row in (0, 2) for columns in (range(2), range(2, 4), range(4, 5))),
    ]
    assert cut([0, 1, 2], 2, 4) == [([0, 1], range(2)), ([2], range(2))]
    assert cut([0], 3, 64) == [([0], range(3))]
