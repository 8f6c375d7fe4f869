"""Small models with a loss, for tests of the descent on weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification

from tests.weights.toy import bits
from zotune.addresses import Keys
from zotune.iterates import View
from zotune.loop import Loop
from zotune.weights.block import TileBlock
from zotune.weights.layout import Layout
from zotune.weights.objective import Batch, WeightsObjective

__all__ = ["TinyQwen", "bits", "block_of", "probed"]

WORDS, LABELS = 300, 2


class TinyQwen(WeightsObjective):
    """A random Qwen3 that classifies sequences, or predicts words with tied embeddings."""

    name = "tiny-qwen"

    def __init__(self, dtype: torch.dtype = torch.float32, *, causal: bool = False) -> None:
        config = Qwen3Config(
            vocab_size=WORDS,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            num_labels=LABELS,
            tie_word_embeddings=causal,
            pad_token_id=0,
        )
        torch.manual_seed(0)
        kind: Any = Qwen3ForCausalLM if causal else Qwen3ForSequenceClassification
        self.causal = causal
        self.module = kind(config).to(dtype).eval().requires_grad_(False)
        self.trained = dict(self.module.named_parameters())
        self.device, self.dtype = torch.device("cpu"), dtype
        self.calls = 0

    def batch(self, keys: Keys, step: int) -> tuple[Tensor, Tensor]:
        draws = np.random.Generator(np.random.Philox(key=[int(keys[0]), step]))
        ids = torch.from_numpy(draws.integers(1, WORDS, (4, 8)))
        return ids, (ids[:, 0] > WORDS // 2).long()

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        self.calls += 1
        ids, labels = batch
        logits = self.module(input_ids=ids, use_cache=False).logits.float()
        if self.causal:
            return cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        return cross_entropy(logits, labels)

    def validate(self) -> dict[str, float]:
        with torch.no_grad():
            batches = [self.batch(np.array([9], dtype=np.uint64), step) for step in range(2)]
            losses = [float(self.loss(batch)) for batch in batches]
        return {"loss": sum(losses) / len(losses), "accuracy": 0.5}

    def touched(self, batch: tuple[Tensor, Tensor]) -> Mapping[str, Tensor]:
        return {} if self.causal else {"model.embed_tokens.weight": batch[0].unique()}


def block_of(loop: Loop, step: int, q: int, layout: Layout) -> TileBlock:
    """The directions of a step."""
    return loop.iterate.block(View(step, layout.dim), q)


@torch.no_grad()
def probed(loop: Loop, batch: Batch, step: int, q: int) -> Tensor:
    """The losses of a step's evaluations."""
    layout = loop.iterate.layout_of(batch)
    return loop.iterate.probe.values(
        batch, layout, block_of(loop, step, q, layout), loop.iterate.difference
    )
