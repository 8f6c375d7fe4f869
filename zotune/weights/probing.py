"""Evaluate losses around the weights without changing them.

Perturbations are not added and subtracted again, which would round. Instead a parameter temporarily
points to memory that holds weights + mu·u; its own memory is only read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter

from zotune.core.differences import Difference
from zotune.weights.block import TileBlock
from zotune.weights.layout import Layout
from zotune.weights.objective import Batch, WeightsObjective

Shift = Callable[[int, range], Tensor]
"""Maps a tile (its index and range) to the perturbation there, (width,)."""


class Probe(ABC):
    """Evaluates a mini-batch at the weights and around them."""

    def __init__(self, objective: WeightsObjective, mu: float) -> None:
        self.objective = objective
        self.mu = mu

    def values(
        self, batch: Batch, layout: Layout, block: TileBlock, difference: Difference
    ) -> Tensor:
        """All losses of a step, (1, evaluations), in float64."""
        values = torch.empty(1, difference.evaluations(block.q), dtype=torch.float64)
        self.begin(batch, layout)
        if difference.knows_center:
            values[0, 0] = self.center(batch)
        for query in range(block.q):
            columns = difference.columns(range(query, query + 1), block.q)
            for sign, column in zip(difference.signs, columns, strict=True):
                values[0, column] = self.side(batch, along(block, query), sign * self.mu)
        return values

    def value(self, batch: Batch, layout: Layout, shift: Shift) -> Tensor:
        """The loss at weights + shift, (1, 1), in float64."""
        self.begin(batch, layout)
        return torch.tensor([[self.side(batch, shift, 1.0)]], dtype=torch.float64)

    def column(self, batch: Batch, block: TileBlock, difference: Difference, column: int) -> float:
        """One of the losses of a step, after ``begin``."""
        if column < difference.per_step:
            return self.center(batch)
        side, query = divmod(column - difference.per_step, block.q)
        return self.side(batch, along(block, query), difference.signs[side] * self.mu)

    @abstractmethod
    def begin(self, batch: Batch, layout: Layout) -> None:
        """Prepare for a mini-batch and its layout; called before the first loss."""

    def center(self, batch: Batch) -> float:
        """The loss at the weights."""
        return float(self.objective.loss(batch))

    @abstractmethod
    def side(self, batch: Batch, shift: Shift, radius: float) -> float:
        """The loss at weights + radius·shift."""


def along(block: TileBlock, query: int) -> Shift:
    """One direction of a block as a shift."""
    return lambda index, tile: block.look(range(query, query + 1), tile)[0]


class FastProbe(Probe):
    """Evaluates losses with a second copy of the parameters, filled where a batch uses it."""

    def __init__(self, objective: WeightsObjective, mu: float) -> None:
        super().__init__(objective, mu)
        self._flat = {name: p.detach().view(-1) for name, p in objective.trained.items()}
        self._copies = {name: torch.zeros_like(flat) for name, flat in self._flat.items()}
        self._stand_ins = {n: self._copies[n].view_as(p) for n, p in objective.trained.items()}
        self._tiles: list[tuple[range, list[tuple[Tensor, Tensor, slice]]]] = []

    def begin(self, batch: Batch, layout: Layout) -> None:
        """Compute, for each tile, the ranges of weights, of the copy, and of u."""
        touched = self.objective.touched(batch) if layout.is_whole else {}
        self._tiles = [
            (tile, [(self._flat[n][at], self._copies[n][at], of_tile) for n, at, of_tile in pieces])
            for tile, pieces in zip(layout.tiles, layout.within(touched), strict=True)
        ]

    def side(self, batch: Batch, shift: Shift, radius: float) -> float:
        """Fill the copy where the mini-batch uses it, and let the parameters point to it."""
        for index, (tile, views) in enumerate(self._tiles):
            if views:
                u = shift(index, tile)
                for base, moved, of_tile in views:
                    torch.add(base, u[of_tile], alpha=radius, out=moved)
        with pointed_at(self.objective.trained, self._stand_ins):
            return self.center(batch)


@contextmanager
def pointed_at(trained: Mapping[str, Parameter], stand_ins: Mapping[str, Tensor]) -> Iterator[None]:
    """Let parameters point to other memory within the context, and restore them in any case."""
    originals = {name: trained[name].data for name in stand_ins}
    try:
        for name, tensor in stand_ins.items():
            trained[name].data = tensor
        yield
    finally:
        for name, tensor in originals.items():
            trained[name].data = tensor
