"""The update: weights ← weights − Σ aᵢ uᵢ in one pass over the tiles of a step's vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from zotune.addresses import Keys
from zotune.weights.block import TileBlock
from zotune.weights.layout import Layout, Piece
from zotune.weights.rounding import Rounder


class Updater:
    """Moves the trained parameters in place, a tile at a time.

    The sum over directions is made by one multiplication and q − 1 additions of tiles, never by a
    matrix product: elementwise operations round the same whatever is kept and however it is cut.

    Args:
        trained: name → parameter.
        width: coordinates of a tile, at most.
        keys: the address of the random rounding.
        momentum: how much of the last update is made again.
    """

    def __init__(
        self, trained: Mapping[str, Parameter], width: int, keys: Keys, momentum: float
    ) -> None:
        first = next(iter(trained.values()))
        self.momentum = momentum
        self._flat = {name: p.detach().view(-1) for name, p in trained.items()}
        self._rounder = Rounder(keys, first.dtype, first.device, width)
        wide = torch.float64 if first.dtype == torch.float64 else torch.float32
        self._change = torch.empty(width, dtype=wide, device=first.device)
        sizes = [p.numel() if momentum else 0 for p in trained.values()]
        self.velocity = torch.zeros(sum(sizes), dtype=wide, device=first.device)
        """Of the last update, where there is momentum."""
        self._velocities = dict(zip(trained, torch.split(self.velocity, sizes), strict=True))

    def move(
        self,
        layout: Layout,
        block: TileBlock,
        step: int,
        a: Sequence[float],
        radius: float | None = None,
    ) -> float | None:
        """Subtract U·a; with a radius, also tell which share of the vector nothing has moved."""
        still = 0
        for index, (tile, pieces) in enumerate(zip(layout.tiles, layout.pieces, strict=True)):
            u = block.look(range(block.q), tile, keep=False)
            change = self._combined(u, a, len(tile))
            self._rounder.begin(step, index)
            for piece in pieces:
                still += self._move(piece, change[piece.of_tile], u[0], radius)
        if self.momentum and not layout.is_whole:
            self._roll_on(layout.unseen(), step, len(layout.tiles))
        return None if radius is None else still / layout.dim

    def _combined(self, u: Tensor, a: Sequence[float], width: int) -> Tensor:
        """Σ aᵢ uᵢ at a tile."""
        change = torch.mul(u[0], a[0], out=self._change[:width])
        for row, weight in zip(u[1:], a[1:], strict=True):
            change.add_(row, alpha=weight)
        return change

    def _move(self, piece: Piece, change: Tensor, u: Tensor, radius: float | None) -> int:
        """Move a piece; count what neither the update nor mu·u changes where that is asked for."""
        if self.momentum:
            velocity = self._velocities[piece.name][piece.inside]
            change = velocity.mul_(self.momentum).add_(change)
        weights = self._flat[piece.name][piece.inside]
        if radius is None:
            self._rounder.subtract(weights, change, piece.of_tile)
            return 0
        before = weights.clone()
        self._rounder.subtract(weights, change, piece.of_tile)
        probed = torch.add(before, u[piece.of_tile], alpha=radius, out=torch.empty_like(before))
        return int(((probed == before) & (weights == before)).sum())

    def _roll_on(self, others: Layout, step: int, first: int) -> None:
        """Move what is not in the step's vector by what momentum has left there."""
        for index, pieces in enumerate(others.pieces, start=first):
            self._rounder.begin(step, index)
            for piece in pieces:
                velocity = self._velocities[piece.name][piece.inside].mul_(self.momentum)
                weights = self._flat[piece.name][piece.inside]
                self._rounder.subtract(weights, velocity, piece.of_tile)
