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
from zotune.weights.layout import Layout, Piece
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
        self._all = self._views(layout.pieces)
        self._seen = self._all

    def begin(self, batch: Batch) -> None:
        """Find out which rows the mini-batch sees."""
        touched = self.objective.touched(batch)
        self._seen = self._views(self.layout.seen(touched)) if touched else self._all

    def side(self, batch: Batch, block: TileBlock, query: int, radius: float) -> float:
        """Fill the copy, and let the parameters point there."""
        for tile, views in zip(self.layout.tiles, self._seen, strict=True):
            if views:
                u = block.look(range(query, query + 1), tile)[0]
                for base, moved, of_tile in views:
                    torch.add(base, u[of_tile], alpha=radius, out=moved)
        with pointed_at(self.objective.trained, self._stand_ins):
            return self.center(batch)

    def _views(self, pieces: list[list[Piece]]) -> list[list[tuple[Tensor, Tensor, slice]]]:
        """Of each tile, where weights are read, where they are written, and where u has them."""
        return [
            [(self._flat[p.name][p.inside], self._copy[p.of_vector], p.of_tile) for p in inside]
            for inside in pieces
        ]


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
