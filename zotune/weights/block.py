"""A step's directions for the weights of a module, drawn in tiles and cached as memory allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor

from zotune.addresses import Keys
from zotune.blocks import ReplayedBlock
from zotune.directions import Directions, Sampler
from zotune.directions.rademacher import Rademacher, Words, write_signs

_STRETCH = 4096
"""Coordinates whose products are summed in float32."""


class TileBlock(ReplayedBlock):
    """q directions that are drawn in tiles and cached if there is room; else drawn at every access.

    The last tiles are cached first, because the first ones are the embedding, of which a batch uses
    little.

    Args:
        sampler: sampler of the directions, for one replicate.
        directions: their entry in the registry.
        step: the step of the address.
        q: number of directions.
        cache: float32 (q, whole tiles) for the last tiles; others are drawn at every access.
        scratch: float32 (q, a tile's width), buffer for tiles that are not cached.
    """

    def __init__(
        self,
        sampler: Sampler,
        directions: Directions,
        step: int,
        q: int,
        cache: Tensor,
        scratch: Tensor,
    ) -> None:
        width = scratch.shape[1]
        super().__init__(
            sampler,
            step,
            q,
            dtype=torch.float32,
            max_bytes=4 * q * width,
            orthogonal=directions.orthogonal,
        )
        self.width = width
        tiles = -(-self.dim // width)
        self._cached = cache
        self._uncached = max(0, tiles - cache.shape[1] // width) * width
        self._kept = np.zeros((q, tiles), dtype=bool)
        self._scratch = scratch

    def look(self, queries: range, tile: range, *, keep: bool = True) -> Tensor:
        """The directions at a tile, (queries, width), valid until the next call.

        They are drawn into the cache if there is room. With ``keep=False`` they are drawn into the
        scratch buffer, which is faster for the last access because it stays in the processor's
        cache.
        """
        at = tile.start // self.width
        kept = self._kept[queries.start : queries.stop, at]
        if tile.start >= self._uncached and (keep or kept.all()):
            inside = slice(tile.start - self._uncached, tile.stop - self._uncached)
            part = self._cached[queries.start : queries.stop, inside]
            for row, query in enumerate(queries):
                if not kept[row]:
                    self._draw(part[row : row + 1], range(query, query + 1), tile)
            kept[:] = True
            return part
        part = self._scratch[: len(queries), : len(tile)]
        self._draw(part, queries, tile)
        return part

    def gram(self) -> Tensor:
        """UᵀU on the CPU: float32 products over short ranges, summed in float64.

        The lower left quarter is the transpose of the upper right one.
        """
        gram, half = self._zeros(self.q, self.q)[0], self.q // 2
        for part in self._chunks():
            for stretch in torch.split(
                part[0], part.shape[-1] // _STRETCH * _STRETCH or _STRETCH, 1
            ):
                width = min(_STRETCH, stretch.shape[1])
                u = stretch.view(self.q, -1, width).transpose(0, 1)
                above, below = u[:, :half], u[:, half:]
                gram[:half] += torch.bmm(above, u.mT).sum(0, dtype=torch.float64)
                gram[half:, half:] += torch.bmm(below, below.mT).sum(0, dtype=torch.float64)
        gram[half:, :half] = gram[:half, half:].mT
        return gram[None].cpu()

    def diagonal(self) -> Tensor:
        """Squared lengths, on the CPU."""
        return super().diagonal().cpu()

    def _draw(self, out: Tensor, queries: range, coordinates: range) -> None:
        self._sampler.fill(out[None], self._step, queries, coordinates)

    def _chunks(self) -> Iterator[Tensor]:
        """All directions, a tile at a time."""
        for start in range(0, self.dim, self.width):
            yield self.look(range(self.q), range(start, min(start + self.width, self.dim)))[None]


class SignBlock(TileBlock):
    """Random signs as packed bits: 1/32 of the memory, and a Gram matrix by counting bits.

    Args:
        cache: words (q, tiles, words per tile) for the last tiles.
    """

    _sampler: Rademacher

    def __init__(
        self,
        sampler: Rademacher,
        directions: Directions,
        step: int,
        q: int,
        cache: Words,
        scratch: Tensor,
    ) -> None:
        super().__init__(sampler, directions, step, q, scratch[:, :0], scratch)
        self._cached_words = cache
        self._uncached_tiles = max(0, self._kept.shape[1] - cache.shape[1])

    def gram(self) -> Tensor:
        """UᵀU: d minus twice the number of bits in which two directions differ."""
        differ = np.zeros((self.q, self.q), dtype=np.int64)
        for tile in range(self._kept.shape[1]):
            words = np.stack([self._words(query, tile) for query in range(self.q)])
            for i in range(1, self.q):
                differ[i, :i] += np.bitwise_count(words[:i] ^ words[i]).sum(-1, dtype=np.int64)
        gram = self.dim - 2 * (differ + differ.T)
        return torch.from_numpy(gram.astype(np.float64))[None]

    def look(self, queries: range, tile: range, *, keep: bool = True) -> Tensor:
        """The directions at a tile, unpacked into the scratch buffer."""
        part = self._scratch[: len(queries), : len(tile)]
        for row, query in zip(part, queries, strict=True):
            write_signs(self._words(query, tile.start // self.width), row)
        return part

    def _words(self, query: int, tile: int) -> Words:
        if tile < self._uncached_tiles:
            return self._sampler.words(self._step, query, tile)
        size = -(-min(self.width, self.dim - tile * self.width) // 64)
        words = self._cached_words[query, tile - self._uncached_tiles, :size]
        if not self._kept[query, tile]:
            words[:] = self._sampler.words(self._step, query, tile)
            self._kept[query, tile] = True
        return words

    def _diagonal(self) -> Tensor:
        return self._zeros(self.q) + self.dim


class BlockCache:
    """The memory for blocks of directions, reused from step to step.

    Args:
        directions: their entry in the registry.
        keys: their address, for one replicate.
        device: where they are drawn.
        dim: maximum number of coordinates of a step.
        q: maximum number of directions of a step.
        may_keep: maximum bytes for cached directions.
    """

    def __init__(
        self,
        directions: Directions,
        keys: Keys,
        device: torch.device,
        *,
        dim: int,
        q: int,
        may_keep: int,
    ) -> None:
        self._directions = directions
        self._sampler = directions.sampler(dim, keys, device)
        self.width = self._sampler.chunk
        """Coordinates of a tile."""
        tiles = -(-dim // self.width)
        words = -(-self.width // 64)
        packs = _packs(self._sampler)
        fitting = min(tiles, may_keep // (q * (8 * words if packs else 4 * self.width)))
        self._words = np.empty((q, fitting if packs else 0, words), dtype=np.uint64)
        coordinates = 0 if packs else fitting * self.width
        self._cached = torch.empty(q, coordinates, dtype=torch.float32, device=device)
        self._scratch = torch.empty(q, self.width, dtype=torch.float32, device=device)

    def block(self, step: int, q: int, dim: int) -> TileBlock:
        """The first q directions of a step in R^dim; the cache of the previous block is reused."""
        if self._sampler.dim != dim:
            before = self._sampler
            self._sampler = self._directions.sampler(dim, before.keys, before.device)
        sampler = self._sampler
        if _packs(sampler):
            return SignBlock(sampler, self._directions, step, q, self._words, self._scratch)
        return TileBlock(sampler, self._directions, step, q, self._cached, self._scratch)


def _packs(sampler: Sampler) -> TypeGuard[Rademacher]:
    """Whether directions are stored as words of 64 bits."""
    return isinstance(sampler, Rademacher) and sampler.packs
