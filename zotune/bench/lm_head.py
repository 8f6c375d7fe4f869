"""Steps on the head of a model of MiniLM's shape, with and without outputs that are kept."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import BertConfig, BertModel

from zotune.language.loading import quiet
from zotune.language.made import VOCABULARY, tiny_tokenizer
from zotune.language.objective import LanguageModel
from zotune.language.options import Options

EXAMPLES = 64


def head_only() -> tuple[LanguageModel, LanguageModel]:
    """The head on random weights and made reviews: computed once for every example, and not."""
    config: Any = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
    )
    build: Any = BertModel
    with TemporaryDirectory() as folder, torch.random.fork_rng(), quiet():
        torch.manual_seed(0)
        build(config).save_pretrained(folder)
        tiny_tokenizer().save_pretrained(folder)
        once, always = (_on(Path(folder), cache_bytes) for cache_bytes in (2**29, 0))
    for row in range(EXAMPLES):  # as after the first epoch
        once.loss(once.prepared.train.batch([row], once.device))
    return once, always


def _on(folder: Path, cache_bytes: int) -> LanguageModel:
    return LanguageModel(
        Options(
            model=str(folder),
            pooling="mean",
            trainable="head",
            train_size=EXAMPLES,
            validation_size=2,
            cache_bytes=cache_bytes,
        )
    )
