"""Losses around the weights, which stay bit for bit what they are.

Nothing is added to the weights and taken off again. A parameter is pointed at memory that holds
weights + mu·u while the loss is computed, and pointed back; its own memory is only read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter

from zotune.differences import Difference
from zotune.weights.block import TileBlock
from zotune.weights.layout import Layout
from zotune.weights.objective import Batch, WeightsObjective


class Probe(ABC):
    """Evaluates a mini-batch at the weights and around them."""

    def __init__(self, objective: WeightsObjective, layout: Layout, mu: float) -> None:
        self.objective = objective
        self.layout = layout
        self.mu = mu

    def values(self, batch: Batch, block: TileBlock, difference: Difference) -> Tensor:
        """All losses of a step, (1, evaluations), in float64."""
        values = torch.empty(1, difference.evaluations(block.q), dtype=torch.float64)
        if difference.knows_center:
            values[0, 0] = self.center(batch)
        self.begin(batch)
        for query in range(block.q):
            columns = difference.columns(range(query, query + 1), block.q)
            for sign, column in zip(difference.signs, columns, strict=True):
                values[0, column] = self.side(batch, block, query, sign * self.mu)
        return values

    def begin(self, batch: Batch) -> None:
        """Look at a mini-batch before its first side."""
        del batch

    def center(self, batch: Batch) -> float:
        """The loss at the weights."""
        return float(self.objective.loss(batch))

    @abstractmethod
    def side(self, batch: Batch, block: TileBlock, query: int, radius: float) -> float:
        """The loss at weights + radius·u."""


class FastProbe(Probe):
    """With one more copy of the trained parameters, in which only what a batch sees is filled."""

    def __init__(self, objective: WeightsObjective, layout: Layout, mu: float) -> None:
        super().__init__(objective, layout, mu)
        trained = objective.trained
        self._flat = {name: p.detach().view(-1) for name, p in trained.items()}
        self._copy = torch.zeros(layout.dim, dtype=objective.dtype, device=objective.device)
        parts = torch.split(self._copy, [p.numel() for p in trained.values()])
        self._stand_ins = {
            name: part.view_as(p) for (name, p), part in zip(trained.items(), parts, strict=True)
        }
        self._seen = layout.pieces

    def begin(self, batch: Batch) -> None:
        """Find out which rows the mini-batch sees."""
        self._seen = self.layout.seen(self.objective.touched(batch))

    def side(self, batch: Batch, block: TileBlock, query: int, radius: float) -> float:
        """Fill the copy, and let the parameters point there."""
        for tile, pieces in zip(self.layout.tiles, self._seen, strict=True):
            if pieces:
                u = block.rows(range(query, query + 1), tile)[0, 0]
                for piece in pieces:
                    base = self._flat[piece.name][piece.inside]
                    moved = self._copy[piece.of_vector]
                    torch.add(base, u[piece.of_tile], alpha=radius, out=moved)
        with pointed_at(self.objective.trained, self._stand_ins):
            return self.center(batch)


@contextmanager
def pointed_at(trained: Mapping[str, Parameter], stand_ins: Mapping[str, Tensor]) -> Iterator[None]:
    """Parameters with other memory for a while; whatever happens, they get their own back."""
    own = {name: trained[name].data for name in stand_ins}
    try:
        for name, tensor in stand_ins.items():
            trained[name].data = tensor
        yield
    finally:
        for name, tensor in own.items():
            trained[name].data = tensor
