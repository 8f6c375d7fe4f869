"""The update: weights ← weights − Σ aᵢ uᵢ in one pass over the tiles of a step's vector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from zotune.addresses import Keys
from zotune.updates.motion import REMEMBERED, Motion
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
        slots: names of the vectors that the update keeps.
    """

    def __init__(
        self, trained: Mapping[str, Parameter], width: int, keys: Keys, slots: Sequence[str] = ()
    ) -> None:
        first = next(iter(trained.values()))
        self._flat = {name: p.detach().view(-1) for name, p in trained.items()}
        self._rounder = Rounder(keys, first.dtype, first.device, width)
        wide = torch.float64 if first.dtype == torch.float64 else torch.float32
        self._change = torch.empty(width, dtype=wide, device=first.device)
        sizes = [p.numel() for p in trained.values()]
        self.slots = {
            name: torch.zeros(sum(sizes), dtype=wide, device=first.device) for name in slots
        }
        """Vectors of the update, each along all trained parameters."""
        split = {name: torch.split(slot, sizes) for name, slot in self.slots.items()}
        self._slots = {
            parameter: {name: parts[at] for name, parts in split.items()}
            for at, parameter in enumerate(trained)
        }

    def move(
        self,
        layout: Layout,
        block: TileBlock,
        step_index: int,
        a: Sequence[float],
        *,
        motion: Motion | None = None,
        eta: float = 1.0,
        radius: float | None = None,
    ) -> float | None:
        """Subtract U·a, or what an update makes of it.

        Args:
            layout: where the vector's coordinates are.
            block: its directions.
            step_index: t, of the address of the rounding.
            a: factors of the directions.
            motion: the update; None subtracts U·a itself.
            eta: the step size that the update is given.
            radius: with one, also tell which share of the vector nothing has moved.
        """
        still, weights = 0, self._weights(layout, block, step_index, a, motion)
        for index, (tile, pieces) in enumerate(zip(layout.tiles, layout.pieces, strict=True)):
            u = block.look(range(block.q), tile, keep=False)
            change = self._combined(u, a, len(tile))
            self._rounder.begin(step_index, index)
            for piece in pieces:
                part = change[piece.of_tile]
                if motion is not None:
                    part = motion(part, self._at(piece), eta, step_index, weights)
                still += self._move(piece, part, u[0], radius)
        return None if radius is None else still / layout.dim

    def shift(
        self,
        layout: Layout,
        block: TileBlock,
        step_index: int,
        a: Sequence[float],
        *,
        motion: Motion | None = None,
        eta: float = 1.0,
    ) -> Callable[[int, range], Tensor]:
        """What ``move`` would add to the weights, tile by tile; nothing is changed."""
        weights = self._weights(layout, block, step_index, a, motion)

        def at(index: int, tile: range) -> Tensor:
            change = self._combined(block.look(range(block.q), tile, keep=False), a, len(tile))
            if motion is None:
                return -change
            moved = torch.zeros_like(change)
            for piece in layout.pieces[index]:
                slots = {name: slot.clone() for name, slot in self._at(piece).items()}
                part = motion(change[piece.of_tile], slots, eta, step_index, weights)
                moved[piece.of_tile] = -part
            return moved

        return at

    def decrease(
        self,
        layout: Layout,
        block: TileBlock,
        step_index: int,
        a: Sequence[float],
        *,
        motion: Motion,
        eta: float,
    ) -> float:
        """gᵀΔ for the Δ that ``move`` would subtract and the estimate g."""
        total = 0.0
        shift = self.shift(layout, block, step_index, a, motion=motion, eta=eta)
        for index, tile in enumerate(layout.tiles):
            moved = shift(index, tile)
            for piece, along in self._along(layout, block, a, index):
                estimate = motion.estimate(along, self._at(piece))
                total -= float((estimate.double() * moved[piece.of_tile].double()).sum())
        return total

    def project(self, layout: Layout, block: TileBlock) -> Tensor:
        """Uᵀm for the vector that the estimator remembers, (1, q), in float64."""
        found = torch.zeros(block.q, dtype=torch.float64, device=self._change.device)
        for tile, pieces in zip(layout.tiles, layout.pieces, strict=True):
            u = block.look(range(block.q), tile)
            for piece in pieces:
                m = self._at(piece)[REMEMBERED]
                found += (u[:, piece.of_tile].double() * m.double()).sum(-1)
        return found[None]

    def clear(self) -> None:
        """Vectors of the update begin anew; what the estimator remembers stays."""
        for name, slot in self.slots.items():
            if name != REMEMBERED:
                slot.zero_()

    def _weights(
        self,
        layout: Layout,
        block: TileBlock,
        step_index: int,
        a: Sequence[float],
        motion: Motion | None,
    ) -> Tensor | None:
        """The weights that an update makes of inner products over the whole vector."""
        if motion is None or motion.weigh is None:
            return None
        gram: Tensor | None = None
        for index in range(len(layout.tiles)):
            for piece, along in self._along(layout, block, a, index):
                vectors = torch.stack([v.double() for v in motion.basis(along, self._at(piece))])
                part = vectors @ vectors.mT
                gram = part if gram is None else gram + part
        assert gram is not None  # there is at least one weight
        return motion.weigh(gram, step_index)

    def _along(
        self, layout: Layout, block: TileBlock, a: Sequence[float], index: int
    ) -> Iterator[tuple[Piece, Tensor]]:
        """The pieces of a tile, and U·a there."""
        tile = layout.tiles[index]
        change = self._combined(block.look(range(block.q), tile, keep=False), a, len(tile)).clone()
        for piece in layout.pieces[index]:
            yield piece, change[piece.of_tile]

    def _at(self, piece: Piece) -> dict[str, Tensor]:
        """The slots at a piece."""
        return {name: slot[piece.inside] for name, slot in self._slots[piece.name].items()}

    def _combined(self, u: Tensor, a: Sequence[float], width: int) -> Tensor:
        """Σ aᵢ uᵢ at a tile."""
        change = torch.mul(u[0], a[0], out=self._change[:width])
        for row, weight in zip(u[1:], a[1:], strict=True):
            change.add_(row, alpha=weight)
        return change

    def _move(self, piece: Piece, change: Tensor, u: Tensor, radius: float | None) -> int:
        """Move a piece; count what neither the update nor mu·u changes where that is asked for."""
        weights = self._flat[piece.name][piece.inside]
        if radius is None:
            self._rounder.subtract(weights, change, piece.of_tile)
            return 0
        before = weights.clone()
        self._rounder.subtract(weights, change, piece.of_tile)
        probed = torch.add(before, u[piece.of_tile], alpha=radius, out=torch.empty_like(before))
        return int(((probed == before) & (weights == before)).sum())
