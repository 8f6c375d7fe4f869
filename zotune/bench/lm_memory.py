"""Peak memory of inference, or of one lean step, on a model of Qwen3-0.6B's shape.

Run as a process of its own: ``python -m zotune.bench.lm_memory inference|step`` prints bytes.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Qwen3Config, Qwen3ForSequenceClassification

from zotune.addresses import Keys
from zotune.config import parse_config
from zotune.loop import Loop
from zotune.weights.objective import WeightsObjective

BATCH, TOKENS, WORDS = 2, 32, 151936


class Qwen(WeightsObjective):
    """Qwen3-0.6B's shape with a classification head and random float32 weights."""

    name = "qwen3-shaped"

    def __init__(self) -> None:
        config = Qwen3Config(
            vocab_size=WORDS,
            hidden_size=1024,
            intermediate_size=3072,
            num_hidden_layers=28,
            num_attention_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            pad_token_id=0,
        )
        self.module = _random_model(config)
        self.trained = dict(self.module.named_parameters())
        self.device, self.dtype = torch.device("cpu"), torch.float32

    def batch(self, keys: Keys, step: int) -> tuple[Tensor, Tensor]:
        """The same random tokens at every step."""
        generator = torch.Generator().manual_seed(step)
        ids = torch.randint(1, WORDS, (BATCH, TOKENS), generator=generator)
        return ids, torch.zeros(BATCH, dtype=torch.int64)

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Cross-entropy of the labels."""
        ids, labels = batch
        return cross_entropy(self.module(input_ids=ids, use_cache=False).logits.float(), labels)

    def validate(self) -> dict[str, float]:
        """The loss of one batch."""
        import numpy as np

        return {"loss": float(self.loss(self.batch(np.zeros(1, dtype=np.uint64), 0)))}

    def touched(self, batch: tuple[Tensor, Tensor]) -> Mapping[str, Tensor]:
        """Rows of the embedding that the tokens name."""
        return {"model.embed_tokens.weight": torch.unique(batch[0])}


def _random_model(config: Any) -> Any:
    """The model with weights that are drawn once: an initialisation would draw them twice."""
    build: Any = Qwen3ForSequenceClassification
    with torch.device("meta"):
        module = build(config)
    module = module.to_empty(device="cpu").eval().requires_grad_(False)
    rotary = module.model.rotary_emb
    module.model.rotary_emb = type(rotary)(config)
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        parameter.uniform_(-0.05, 0.05, generator=generator)
    return module


@torch.no_grad()
def main(what: str) -> int:
    """Do it and return the peak of resident memory in bytes."""
    torch.set_num_threads(1)
    objective = Qwen()
    if what == "inference":
        objective.validate()
    else:
        settings = {"estimator": "avg", "q": 2, "step": "constant", "eta": 1e-6}
        config = parse_config(settings | {"budget": 4, "memory": "lean"})
        loop = Loop(config, objective)
        loop.step(loop.init())
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    print(main(sys.argv[1]))
