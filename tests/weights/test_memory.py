"""Fast and lean, kept and replayed: different ways to the same bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.instrument import parse_config
from tests.weights.models import TinyQwen, bits, block_of, probed
from tests.weights.toy import Toy, settings
from zotune.directions import DIRECTIONS
from zotune.errors import ConfigError, OutOfMemory
from zotune.loop import Loop
from zotune.weights import lean, memory
from zotune.weights.objective import WeightsObjective
from zotune.weights.probing import along

ROWS = pytest.mark.parametrize("rows", ["seen", "all"])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])


def finished(objective: WeightsObjective, **changes: Any) -> tuple[bytes, list[list[float]]]:
    loop = Loop(parse_config(settings(budget=9, **changes)), objective)
    loop.advance(loop.init())
    return bits(objective), loop.iterate.log


@DTYPES
@ROWS
@pytest.mark.parametrize("causal", [False, True])
def test_lean_is_bit_for_bit_what_fast_is(dtype: torch.dtype, causal: bool, rows: str) -> None:
    options = {"estimator": "align", "embedding_rows": rows}
    fast = finished(TinyQwen(dtype, causal=causal), memory="fast", **options)
    thin = finished(TinyQwen(dtype, causal=causal), memory="lean", **options)
    assert fast == thin


@DTYPES
def test_a_lean_estimate_leaves_every_weight_bit_for_bit(dtype: torch.dtype) -> None:
    objective = TinyQwen(dtype, causal=True)
    loop = Loop(parse_config(settings(memory="lean", difference="central")), objective)
    before = bits(objective)
    batch = objective.batch(loop.iterate.batch_keys, 0)
    probed(loop, batch, 0, q=3)
    assert bits(objective) == before
    with pytest.raises(IndexError):
        probed(loop, (batch[0] + 9999, batch[1]), 0, q=3)
    assert bits(objective) == before
    assert all("forward" not in module.__dict__ for module in objective.module.modules())


def test_a_head_in_parts_gives_the_same_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """The products of the parts round differently in the last places."""
    objective = TinyQwen(torch.float64, causal=True)
    loop = Loop(parse_config(settings(memory="lean")), objective)
    whole = Loop(parse_config(settings(memory="fast")), objective)
    batch = objective.batch(loop.iterate.batch_keys, 0)
    monkeypatch.setattr(lean, "PART_BYTES", 64 * 8 * 37)
    parts, wholes = probed(loop, batch, 0, q=3), probed(whole, batch, 0, q=3)
    assert torch.allclose(parts, wholes, rtol=1e-6)
    assert len(parts.unique()) == 4


@ROWS
@pytest.mark.parametrize("directions", sorted(DIRECTIONS))
@pytest.mark.parametrize("estimator", ["avg", "align", "align-diag"])
def test_replayed_directions_are_those_that_were_kept(
    directions: str, estimator: str, rows: str
) -> None:
    options = {"directions": directions, "estimator": estimator, "embedding_rows": rows}
    options["memory"] = "fast"
    kept = finished(TinyQwen(), **options)
    replayed = finished(TinyQwen(), block_bytes=1, **options)
    assert kept == replayed


def test_tied_weights_move_the_same_way_at_both_uses() -> None:
    objective = TinyQwen(causal=True)
    assert objective.module.lm_head.weight is objective.module.model.embed_tokens.weight
    finished(objective, memory="lean")
    assert objective.module.lm_head.weight is objective.module.model.embed_tokens.weight


def test_rows_that_a_batch_does_not_see_do_not_matter_to_its_losses() -> None:
    with_rows, without = TinyQwen(), TinyQwen()
    without.touched = lambda batch: {}  # type: ignore[method-assign]
    assert finished(with_rows, embedding_rows="all") == finished(without)


class Elsewhere(Toy):
    """Uses its weights behind the back of the module that owns them."""

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        first = self.module[0]
        hidden = nn.functional.linear(self.x[batch], first.weight, first.bias)
        return (self.module[2](hidden.tanh()).float() - self.y[batch]).square().mean()


@pytest.mark.parametrize("difference", ["forward", "central"])
def test_lean_refuses_weights_that_are_used_elsewhere(difference: str) -> None:
    objective = Elsewhere()
    before = bits(objective)
    with pytest.raises(ConfigError, match="set memory='fast'"):
        finished(objective, memory="lean", difference=difference)
    assert bits(objective) == before
    assert finished(Elsewhere(), memory="fast") == finished(Toy(), memory="fast")


class Hungry(Toy):
    """Asks for more than any machine has."""

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.empty(2**50).sum()

    def validate(self) -> dict[str, float]:
        return {"loss": 0.0}


def test_out_of_memory_says_what_to_lower() -> None:
    objective = Hungry()
    before = bits(objective)
    with pytest.raises(OutOfMemory, match=r"set memory='lean', or lower block_bytes .*the batch"):
        finished(objective)
    assert bits(objective) == before


def test_memory_is_chosen_by_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    config, objective = parse_config(settings()), Toy()
    assert memory.choose_memory(config, objective) == "fast"
    monkeypatch.setattr(memory, "available_bytes", lambda device: 1000)
    assert memory.choose_memory(config, objective) == "lean"
    assert memory.choose_memory(parse_config(settings(memory="fast")), objective) == "fast"
    with pytest.raises(ConfigError, match="update 'momentum' keeps 1 vectors of 161 numbers"):
        memory.choose_memory(parse_config(settings(momentum=0.5)), objective)


def test_lean_moves_of_a_parameter_what_the_batch_sees_and_leaves_the_rest() -> None:
    objective = TinyQwen()
    loop = Loop(parse_config(settings(memory="lean")), objective)
    batch = objective.batch(loop.iterate.batch_keys, 0)
    layout = loop.iterate.layout_of(batch)
    assert isinstance(loop.iterate.probe, lean.LeanProbe)
    loop.iterate.probe.begin(batch, layout)
    own = objective.trained["model.embed_tokens.weight"]
    mover = lean._Mover(loop.iterate.probe, along(block_of(loop, 0, 3, layout), 0), 1e-2)
    moved = (mover.whole("model.embed_tokens.weight") != own).any(1).nonzero()[:, 0]
    assert moved.tolist() == batch[0].unique().tolist()
