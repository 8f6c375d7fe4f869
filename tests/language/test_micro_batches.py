"""Micro-batches: the loss of the whole batch, in the memory of a part of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import zotune
from tests.instrument import parse_config
from tests.language.conftest import made
from tests.language.test_objective import HEADS
from tests.weights.toy import assert_same, bits
from zotune.addresses import Keys
from zotune.language.objective import LanguageModel
from zotune.loop import Loop
from zotune.runs.checkpoint import load_loop, save_loop

TOLD = {"estimator": "avg", "q": 2, "update": "sgd", "step": "constant", "eta": 1.0}


def rows_of_forwards(objective: LanguageModel) -> list[int]:
    """The number of rows in every forward pass, counted at the model."""
    counted: list[int] = []

    def count(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        counted.append(len(kwargs["input_ids"]))

    inner: Any = objective.module.inner
    inner.base_model.register_forward_pre_hook(count, with_kwargs=True)
    return counted


@pytest.mark.parametrize("options", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("micro_batch", [1, 5, 32])
def test_the_loss_is_that_of_the_whole_batch(
    options: dict[str, Any], micro_batch: int, keys: Keys
) -> None:
    whole = made(batch=32, **options)
    parts = made(batch=32, micro_batch=micro_batch, **options)
    batch = whole.batch(keys, 1)
    assert len(set(batch.lengths.tolist())) > 3
    assert float(parts.loss(batch)) == pytest.approx(float(whole.loss(batch)), rel=1e-6)
    assert parts.validate()["loss"] == pytest.approx(whole.validate()["loss"], rel=1e-6)


def test_a_micro_batch_as_large_as_the_batch_is_the_plain_loss(keys: Keys) -> None:
    plain, same = made(batch=8), made(batch=8, micro_batch=8)
    batch = plain.batch(keys, 0)
    logits = plain.module(batch)
    mean = torch.nn.functional.cross_entropy(logits, batch.labels)
    assert torch.equal(plain.loss(batch), mean)
    assert torch.equal(same.loss(batch), mean)


@pytest.mark.parametrize("memory", ["fast", "lean"])
def test_no_forward_pass_is_larger_and_a_loss_is_charged_once(memory: str) -> None:
    objective = made(batch=32, micro_batch=5)
    counted = rows_of_forwards(objective)
    run = zotune.minimize(objective, budget=6, points=2, memory=memory, **TOLD)
    assert run.state.ledger.evaluations == 6
    assert max(counted) == 5
    validated = 7 * run.state.ledger.monitored // objective.evaluations_to_validate
    losses = (sum(counted) - 32 * validated // 7) / 32
    assert losses in (6, 7)  # lean memory checks itself once where needed


@pytest.mark.parametrize("memory", ["fast", "lean"])
def test_a_resumed_run_has_the_same_bits(memory: str, tmp_path: Path) -> None:
    config = parse_config(TOLD | {"budget": 18, "memory": memory})
    options = {"batch": 16, "micro_batch": 3}
    whole = Loop(config, made(**options))
    end = whole.advance(whole.init())
    first = Loop(config, made(**options))
    save_loop(first, first.advance(first.init(), 9), tmp_path / "state.safetensors")
    second = Loop(config, made(**options))
    assert_same(second.advance(load_loop(second, tmp_path / "state.safetensors")[0]), end)
    assert bits(second.objective) == bits(whole.objective)  # type: ignore[arg-type]
