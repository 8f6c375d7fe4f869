"""The update: weights ← weights − Σ aᵢ uᵢ in one pass over the tiles of a step's vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from zotune.addresses import Keys
from zotune.updates.motion import REMEMBERED, Motion
from zotune.weights.block import TileBlock
from zotune.weights.layout import Layout, Piece
from zotune.weights.probing import Shift
from zotune.weights.rounding import Rounder


class WeightsMove(NamedTuple):
    """The change of the weights by one step: subtract U·a, or the update's function of it."""

    layout: Layout
    """The layout of the step's vector."""
    block: TileBlock
    """The directions of the step."""
    step: int
    """t, for the address of the rounding."""
    a: Sequence[float]
    """Factors of the directions."""
    motion: Motion | None = None
    """The update; None: subtract U·a itself."""
    eta: float = 1.0
    """The step size, passed to the update."""


class Updater:
    """Moves the trained parameters in place, a tile at a time.

    The sum over directions is computed by elementwise operations on tiles, never by a matrix
    product, so that rounding does not depend on the cache or on the division into tiles.

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
        """Vectors of the update, each with the length of all trained parameters."""
        split = {name: torch.split(slot, sizes) for name, slot in self.slots.items()}
        self._slots = {
            parameter: {name: parts[at] for name, parts in split.items()}
            for at, parameter in enumerate(trained)
        }

    def move(self, move: WeightsMove, *, radius: float | None = None) -> float | None:
        """Move the weights; with a radius, return the share of the vector that nothing moved."""
        layout, block, motion = move.layout, move.block, move.motion
        still, weights = 0, self._weights(move)
        for index, (tile, pieces) in enumerate(zip(layout.tiles, layout.pieces, strict=True)):
            u = block.look(range(block.q), tile, keep=False)
            change = self._combined(u, move.a, len(tile))
            self._rounder.begin(move.step, index)
            for piece in pieces:
                part = change[piece.of_tile]
                if motion is not None:
                    part = motion(part, self._at(piece), move.eta, move.step, weights)
                still += self._move(piece, part, u[0], radius)
        return None if radius is None else still / layout.dim

    def shift(self, move: WeightsMove) -> Shift:
        """The change that ``move`` would add to the weights, by tile; nothing is modified."""
        block, motion, weights = move.block, move.motion, self._weights(move)

        def at(index: int, tile: range) -> Tensor:
            change = self._combined(block.look(range(block.q), tile, keep=False), move.a, len(tile))
            if motion is None:
                return -change
            moved = torch.zeros_like(change)
            for piece in move.layout.pieces[index]:
                slots = {name: slot.clone() for name, slot in self._at(piece).items()}
                part = motion(change[piece.of_tile], slots, move.eta, move.step, weights)
                moved[piece.of_tile] = -part
            return moved

        return at

    def decrease(self, move: WeightsMove) -> float:
        """gᵀΔ for the Δ that ``move`` would subtract and the estimate g."""
        assert move.motion is not None  # it computes the estimate
        total, shift = 0.0, self.shift(move)
        for index, tile in enumerate(move.layout.tiles):
            moved = shift(index, tile)
            for piece, along in self._along(move, index):
                estimate = move.motion.estimate(along, self._at(piece))
                total -= float((estimate.double() * moved[piece.of_tile].double()).sum())
        return total

    def project(self, layout: Layout, block: TileBlock) -> Tensor:
        """Uᵀm for the estimator's memory m, (1, q), in float64."""
        found = torch.zeros(block.q, dtype=torch.float64, device=self._change.device)
        for tile, pieces in zip(layout.tiles, layout.pieces, strict=True):
            u = block.look(range(block.q), tile)
            for piece in pieces:
                m = self._at(piece)[REMEMBERED]
                found += (u[:, piece.of_tile].double() * m.double()).sum(-1)
        return found[None]

    def clear(self) -> None:
        """Reset the vectors of the update; the estimator's memory is kept."""
        for name, slot in self.slots.items():
            if name != REMEMBERED:
                slot.zero_()

    def _weights(self, move: WeightsMove) -> Tensor | None:
        """The weights of an update that depend on inner products over the whole vector."""
        motion = move.motion
        if motion is None or motion.weigh is None:
            return None
        gram: Tensor | None = None
        for index in range(len(move.layout.tiles)):
            for piece, along in self._along(move, index):
                vectors = torch.stack([v.double() for v in motion.basis(along, self._at(piece))])
                part = vectors @ vectors.mT
                gram = part if gram is None else gram + part
        assert gram is not None  # there is at least one weight
        return motion.weigh(gram, move.step)

    def _along(self, move: WeightsMove, index: int) -> Iterator[tuple[Piece, Tensor]]:
        """The pieces of a tile, and U·a there."""
        tile, block = move.layout.tiles[index], move.block
        u = block.look(range(block.q), tile, keep=False)
        change = self._combined(u, move.a, len(tile)).clone()
        for piece in move.layout.pieces[index]:
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
        """Move a piece; with a radius, count entries that neither the update nor mu·u changes."""
        weights = self._flat[piece.name][piece.inside]
        if radius is None:
            self._rounder.subtract(weights, change, piece.of_tile)
            return 0
        before = weights.clone()
        self._rounder.subtract(weights, change, piece.of_tile)
        probed = torch.add(before, u[piece.of_tile], alpha=radius, out=torch.empty_like(before))
        return int(((probed == before) & (weights == before)).sum())
