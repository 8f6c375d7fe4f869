"""Low-rank updates of linear layers: W + (alpha / r) B A, with A and B trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from zotune.errors import ConfigError

TARGETS = (
    *("q_proj", "v_proj", "query", "value", "q_lin", "v_lin"),
    *("query_key_value", "qkv_proj", "Wqkv"),
)
"""Names of query and value projections in different architectures."""


class LoRALinear(nn.Module):
    """A frozen linear layer plus a low-rank one, which is zero at the start."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.lora_a = nn.Parameter(base.weight.new_empty(rank, base.in_features))
        self.lora_b = nn.Parameter(base.weight.new_zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """(W + (alpha / r) B A) x + b."""
        low = nn.functional.linear(nn.functional.linear(x, self.lora_a), self.lora_b)
        wide: Tensor = self.base(x)
        return wide + self.scale * low

    def merged(self) -> nn.Linear:
        """An equivalent linear layer; the sum is computed in float32."""
        low = self.scale * (self.lora_b.float() @ self.lora_a.float())
        plain = nn.Linear(1, 1, bias=False, device="meta")
        plain.in_features, plain.out_features = self.base.in_features, self.base.out_features
        weight = (self.base.weight.float() + low).to(self.base.weight.dtype)
        plain.weight = nn.Parameter(weight, requires_grad=False)
        plain.bias = self.base.bias
        return plain


def add_lora(module: nn.Module, rank: int, alpha: float, generator: torch.Generator) -> None:
    """Add low-rank layers to the query and value projections; A is Gaussian, B is zero."""
    found = [
        (parent, name, child)
        for parent in module.modules()
        for name, child in parent.named_children()
        if name in TARGETS and isinstance(child, nn.Linear)
    ]
    if not found:
        raise ConfigError(
            "problem.trainable: lora needs linear layers called "
            f"{', '.join(TARGETS)}, and this model has none; give a name pattern"
        )
    for parent, name, base in found:
        layer = LoRALinear(base, rank, alpha)
        if not layer.lora_a.is_meta:
            drawn = torch.randn(layer.lora_a.shape, generator=generator)
            layer.lora_a.data.copy_(drawn / base.in_features**0.5)
        setattr(parent, name, layer)


@contextmanager
def merged(module: nn.Module) -> Iterator[None]:
    """Replace low-rank layers by merged ones within the context."""
    found = [
        (parent, name, child)
        for parent in list(module.modules())
        for name, child in parent.named_children()
        if isinstance(child, LoRALinear)
    ]
    for parent, name, layer in found:
        setattr(parent, name, layer.merged())
    try:
        yield
    finally:
        for parent, name, layer in found:
            setattr(parent, name, layer)
