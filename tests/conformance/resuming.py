"""Runs that are saved and loaded again, or killed, are bit for bit the unbroken ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import zotune
from tests.evaluators.shuffled import KilledError, Shuffled
from tests.instrument import parse_config
from tests.weights.models import TinyQwen
from tests.weights.toy import Toy, assert_same, bits
from zotune.core.names import RUNNING, SCALARS_FILE, STATE_FILE
from zotune.core.state import State
from zotune.estimators import ESTIMATORS
from zotune.evaluators import SERIAL, Evaluator
from zotune.loop import Loop
from zotune.runs.checkpoint import load_loop, save_loop
from zotune.weights.scalars import ScalarLog, rebuild

PLAIN = {"estimator": "align", "q": 3, "update": "sgd", "step": "constant", "eta": 1e-3}
SIZE = {"budget": 40, "count": "evaluations", "report_every": 13}


def on_vectors(told: dict[str, Any], evaluator: Evaluator = SERIAL) -> Loop:
    """Two replicates on a small quadratic, with the settings that are told."""
    objective = zotune.objectives.build_problem({"name": "quadratic", "dim": 6})
    config = parse_config(PLAIN | SIZE | {"replicates": 2} | told)
    return Loop(config, objective, evaluator=evaluator)


def on_weights(
    told: dict[str, Any], evaluator: Evaluator = SERIAL, *, model: Callable[[], Any] = TinyQwen
) -> Loop:
    """The same settings on the weights of a model."""
    return Loop(parse_config(PLAIN | SIZE | told), model(), evaluator=evaluator)


WORLDS = {"vectors": on_vectors, "weights": partial(on_weights, model=Toy)}
"""Where x may live, each with a run of milliseconds."""


def same_weights(one: Loop, other: Loop) -> bool:
    """Whether two loops left the same weights, where they are over weights."""
    trained = hasattr(one.objective, "trained")
    return not trained or bits(one.objective) == bits(other.objective)


def check_vectors(folder: Path, **told: Any) -> None:
    """Resumed after every few evaluations, a run is bit for bit the unbroken one."""
    whole, path = on_vectors(told), folder / STATE_FILE
    unbroken = whole.advance(whole.init())
    state, loop = None, on_vectors(told)
    for until in (5, 18, 31, None):
        state = loop.advance(loop.init() if state is None else state, until)
        save_loop(loop, state, path)
        loop = on_vectors(told)
        state, _ = load_loop(loop, path)
    assert torch.equal(state.x, unbroken.x)
    assert state.ledger == unbroken.ledger
    assert loop.curve_rows(state) == whole.curve_rows(unbroken)
    assert unbroken.ledger.evaluations <= whole.config.budget


def check_weights(folder: Path, *, dtype: torch.dtype = torch.float32, **told: Any) -> None:
    """The same on a model; the scalar log rebuilds its weights, where there is one."""
    make = partial(on_weights, told, model=partial(TinyQwen, dtype))
    whole, path = make(), folder / STATE_FILE
    whole.advance(whole.init())
    loop = make()
    save_loop(loop, loop.advance(loop.init(), 14), path)
    again = make()
    state = again.advance(load_loop(again, path)[0])
    assert bits(again.objective) == bits(whole.objective)
    assert state.ledger.evaluations <= whole.config.budget
    save_loop(again, state, path)
    if ESTIMATORS[whole.config.estimator].remember is not None:
        assert not (folder / SCALARS_FILE).exists()
        return
    rebuilt = TinyQwen(dtype)
    rebuild(rebuilt, ScalarLog.load(folder))
    assert bits(rebuilt) == bits(whole.objective)


def finished(loop: Loop, state: State) -> State:
    """The state at the end, with every report on the way."""
    while loop.status(state) == RUNNING:
        state, _ = loop.report(loop.advance_to_report(state))
    return state


def check_killed(make: Callable[[Evaluator], Loop], folder: Path) -> None:
    """Killed at any evaluation, which come in any order, and resumed, it is the same run."""
    whole = make(Shuffled(0))
    end = finished(whole, whole.init())
    path, draw, kills = folder / STATE_FILE, random.Random(3), 0
    while True:
        loop = make(Shuffled(draw.randint(0, 99), life=draw.randint(2, 6) * (1 + kills)))
        try:
            state = load_loop(loop, path)[0] if path.exists() else loop.init()
            while loop.status(state) == RUNNING:
                state, _ = loop.report(loop.advance_to_report(state))
                save_loop(loop, state, path)
        except KilledError:
            kills += 1
        else:
            break
    assert kills
    assert_same(state, end)
    assert same_weights(loop, whole)
