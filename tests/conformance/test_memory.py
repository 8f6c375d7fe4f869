"""Estimators that remember, one of the house and one of a user's, on vectors and on weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import zotune
from tests.conformance.test_every_step import check_vectors, settings
from tests.instrument import parse_config
from tests.weights.models import TinyQwen, bits
from zotune.blocks import Block
from zotune.core.names import SCALARS_FILE, STATE_FILE
from zotune.errors import ConfigError
from zotune.estimators import ESTIMATORS, register
from zotune.loop import Loop
from zotune.runs.checkpoint import load_loop, save_loop


def fading(m: Tensor, along: Tensor) -> Tensor:
    """Half of what is known now."""
    return 0.5 * (m + along)


def halved(v: Tensor, block: Block) -> Tensor:
    """A mean over half a memory."""
    return v / (2 * block.q)


@pytest.fixture(params=["align-memory", "fading"])
def name(request: pytest.FixtureRequest) -> str:
    if "fading" not in ESTIMATORS:
        register("fading", formula="m + U (v − Uᵀm) / 2q", remember=fading)(halved)
    return str(request.param)


@pytest.mark.parametrize("update", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("step", [("constant", 1e-3), ("auto", None)])
def test_a_resumed_run_over_vectors_is_bit_for_bit_the_unbroken_one(
    name: str, update: str, step: tuple[str, float | None], tmp_path: Path
) -> None:
    check_vectors(tmp_path, name=step[0], eta=step[1], estimator=name, update=update)


@pytest.mark.parametrize("step", [("constant", 1e-3), ("auto", None)])
def test_a_resumed_run_over_weights_is_bit_for_bit_the_unbroken_one(
    name: str, step: tuple[str, float | None], tmp_path: Path
) -> None:
    """The scalar log does not hold such a run, and is not written."""
    config = parse_config(settings(step[0], eta=step[1], estimator=name, update="momentum"))
    whole = Loop(config, TinyQwen(torch.float32))
    whole.advance(whole.init())
    loop = Loop(config, TinyQwen(torch.float32))
    save_loop(loop, loop.advance(loop.init(), 14), tmp_path / STATE_FILE)
    again = Loop(config, TinyQwen(torch.float32))
    again.advance(load_loop(again, tmp_path / STATE_FILE)[0])
    assert bits(again.objective) == bits(whole.objective)
    assert not (tmp_path / SCALARS_FILE).exists()


def test_the_estimate_of_a_linear_function_becomes_its_gradient_with_any_q() -> None:
    """What earlier blocks have measured stays: after d orthogonal directions, all is known."""
    slope = torch.linspace(-1, 2, 8, dtype=torch.float64)
    objective = zotune.objective(lambda x: slope @ x, 8)
    config = parse_config(
        settings("constant", eta=1e-9, estimator="align-memory", q=2, budget=120)
        | {"directions": "coordinate", "count": "directions"}
    )
    loop = Loop(config, objective)
    state = loop.advance(loop.init())
    remembered = state.lanes[0].slots["remembered"][0]
    assert torch.allclose(remembered, slope, atol=1e-6)


def test_memory_of_a_model_s_size_is_refused_where_there_is_no_room() -> None:
    config = parse_config(settings("constant", estimator="align-memory", memory="lean"))
    with pytest.raises(
        ConfigError, match="and estimator 'align-memory' keeps 1; set memory='fast'"
    ):
        Loop(config, TinyQwen(torch.float32))
