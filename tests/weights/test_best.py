"""The weights with the lowest validation loss: kept beside the last, through kills and exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.instrument import parse_config
from tests.weights.toy import Toy, settings
from zotune.core.names import STATE_FILE
from zotune.core.state import State
from zotune.errors import ConfigError, ZotuneError
from zotune.loop import Loop
from zotune.runs.checkpoint import load_loop, save_loop
from zotune.runs.run import load_run

FALLS_AND_RISES = {"eta": 0.085, "budget": 120, "report_every": 6}


def loop_for(**changes: Any) -> Loop:
    return Loop(parse_config(settings(**FALLS_AND_RISES | changes)), Toy())


def reported(loop: Loop, state: State, reports: int = 20) -> tuple[State, dict[str, Any]]:
    """A run whose loss is looked at with every report."""
    for _ in range(reports):
        state, row = loop.report(loop.advance_to_report(state))
    return state, row


def loss_of(weights: dict[str, Tensor]) -> float:
    objective = Toy()
    for name, weight in weights.items():
        objective.trained[name].data.copy_(weight)
    return objective.validate()["loss"]


@pytest.mark.parametrize("memory", ["fast", "lean"])
def test_the_best_weights_have_the_best_loss_and_the_last_have_the_last(
    tmp_path: Path, memory: str
) -> None:
    loop = loop_for(memory=memory)
    state, row = reported(loop, loop.init())
    save_loop(loop, state, tmp_path / STATE_FILE)
    run = load_run(tmp_path)
    assert run.best_loss < min(run.rows[0]["loss"], run.rows[-1]["loss"])
    assert loss_of(run.weights(best=True)) == run.best_loss
    assert loss_of(run.weights()) == row["loss"]


def test_a_run_that_never_improves_keeps_its_start(tmp_path: Path) -> None:
    loop = loop_for(eta=1e3, report_every=30)
    state = loop.advance(loop.init())
    save_loop(loop, state, tmp_path / STATE_FILE)
    run = load_run(tmp_path)
    assert run.best_loss == run.rows[0]["loss"] == loss_of(run.weights(best=True))


def test_a_resumed_run_has_the_best_weights_of_the_unbroken_one(tmp_path: Path) -> None:
    whole, first = loop_for(), loop_for()
    state, _ = reported(first, first.init(), 15)
    save_loop(first, state, tmp_path / STATE_FILE)
    resumed = loop_for()
    found, _ = load_loop(resumed, tmp_path / STATE_FILE)
    reported(whole, whole.init())
    reported(resumed, found, 5)
    kept, again = (loop.iterate.weights_reader() for loop in (whole, resumed))
    assert kept is not None
    assert again is not None
    best = kept(True)
    assert best.keys() == again(True).keys() == kept(False).keys()
    assert all(torch.equal(best[name], again(True)[name]) for name in best)
    assert not all(torch.equal(best[name], kept(False)[name]) for name in best)


def test_best_weights_that_were_not_kept_are_refused_with_what_to_set(tmp_path: Path) -> None:
    loop = loop_for(keep_best=False)
    save_loop(loop, loop.advance(loop.init()), tmp_path / STATE_FILE)
    with pytest.raises(ZotuneError, match="kept its last weights only; set keep_best=True"):
        load_run(tmp_path).weights(best=True)


def test_vectors_have_no_weights_to_keep() -> None:
    config = parse_config(settings(keep_best=True, problem={"name": "quadratic", "dim": 5}))
    with pytest.raises(ConfigError, match="keep_best is a setting for the weights of a model"):
        config.refuse_settings_for_weights()
