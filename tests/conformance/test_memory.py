"""Estimators that remember, one of the house and one of a user's, on vectors and on weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import zotune
from tests.conformance.resuming import check_vectors, check_weights
from tests.conformance.test_every_step import settings
from tests.conformance.toys import register_toys
from tests.instrument import parse_config
from tests.weights.models import TinyQwen
from zotune.errors import ConfigError
from zotune.loop import Loop


@pytest.fixture(params=["align-memory", "fading"])
def name(request: pytest.FixtureRequest) -> str:
    register_toys()
    return str(request.param)


@pytest.mark.parametrize("update", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("step", [("constant", 1e-3), ("auto", None)])
def test_a_resumed_run_over_vectors_is_bit_for_bit_the_unbroken_one(
    name: str, update: str, step: tuple[str, float | None], tmp_path: Path
) -> None:
    check_vectors(tmp_path, step=step[0], eta=step[1], estimator=name, update=update)


@pytest.mark.parametrize("step", [("constant", 1e-3), ("auto", None)])
def test_a_resumed_run_over_weights_is_bit_for_bit_the_unbroken_one(
    name: str, step: tuple[str, float | None], tmp_path: Path
) -> None:
    """The scalar log does not hold such a run, and is not written."""
    check_weights(tmp_path, step=step[0], eta=step[1], estimator=name, update="momentum")


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
