"""A network of 161 weights, quick to import."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.devices import chosen
from zotune.addresses import Keys
from zotune.core.state import State
from zotune.runs.checkpoint import _tensors
from zotune.weights.objective import WeightsObjective


class Toy(WeightsObjective):
    """Regression by a network of 161 weights."""

    name = "toy"

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        generator = torch.Generator().manual_seed(0)
        self.module = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        self.module.to(dtype).eval().requires_grad_(False)
        for parameter in self.module.parameters():
            parameter.normal_(0, 0.3, generator=generator)
        self.module.to(chosen())
        self.trained = dict(self.module.named_parameters())
        self.device, self.dtype = chosen(), dtype
        self.x = torch.randn(256, 8, generator=generator).to(chosen(), dtype)
        self.y = self.x[:, :1].float().sin() + self.x[:, 1:2].float()

    def batch(self, keys: Keys, step: int) -> Tensor:
        draws = np.random.Generator(np.random.Philox(key=[int(keys[0]), step]))
        return torch.from_numpy(draws.integers(0, len(self.x), 32)).to(self.device)

    def loss(self, batch: Tensor) -> Tensor:
        return (self.module(self.x[batch]).float() - self.y[batch]).square().mean()

    def validate(self) -> dict[str, float]:
        with torch.no_grad():
            return {"loss": float(self.loss(torch.arange(len(self.x), device=self.device)))}


def bits(objective: WeightsObjective) -> bytes:
    """All trained weights, bit for bit."""
    flat = [p.detach().view(-1).view(torch.uint8) for p in objective.trained.values()]
    return torch.cat(flat).cpu().numpy().tobytes()


def assert_same(one: State, other: State) -> None:
    """Two states have the same numbers, bit for bit."""
    for a, b in zip(one.lanes, other.lanes, strict=True):
        assert (a.steps, a.ledger, a.q, a.looked) == (b.steps, b.ledger, b.q, b.looked)
        mine, theirs = _tensors(a), _tensors(b)
        assert mine.keys() == theirs.keys()
        for name, tensor in mine.items():
            assert torch.equal(tensor.nan_to_num(9e9), theirs[name].nan_to_num(9e9)), name


def settings(**changes: Any) -> dict[str, Any]:
    plain = {"estimator": "avg", "q": 3, "update": "sgd", "step": "constant", "eta": 1e-3}
    return plain | {"budget": 30, "count": "directions"} | changes
