"""A step's directions for the weights of a module: tile by tile, kept where there is room."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from zotune.blocks import ReplayedBlock
from zotune.directions import Directions, Sampler
from zotune.directions.rademacher import Rademacher


class TileBlock(ReplayedBlock):
    """q directions that are drawn in tiles; a tile is drawn once where there is room to keep it.

    Args:
        sampler: of the directions, for one replicate.
        directions: their entry in the registry.
        step: of the address.
        q: how many.
        room: float32 (q, d) to keep them in, or None to draw again at every look.
    """

    def __init__(
        self, sampler: Sampler, directions: Directions, step: int, q: int, room: Tensor | None
    ) -> None:
        width = sampler.chunk
        super().__init__(
            sampler,
            step,
            q,
            dtype=torch.float32,
            max_bytes=4 * q * width,
            orthogonal=directions.orthogonal,
        )
        self.width = width
        self._room = room
        self._kept = np.zeros((q, -(-self.dim // width)), dtype=bool)
        self._scratch = torch.empty(0)

    def rows(self, queries: range, coordinates: range) -> Tensor:
        """Directions at some coordinates; those of a whole tile are kept."""
        if self._room is None or not self._is_tile(coordinates):
            return super().rows(queries, coordinates)
        tile = coordinates.start // self.width
        part = self._room[None, queries.start : queries.stop, coordinates.start : coordinates.stop]
        kept = self._kept[queries.start : queries.stop, tile]
        if not kept.all():
            for query in queries:
                if not self._kept[query, tile]:
                    into = part[:, query - queries.start : query - queries.start + 1]
                    self._sampler.fill(into, self._step, range(query, query + 1), coordinates)
            kept[:] = True
        return part

    def passing(self, coordinates: range) -> Tensor:
        """All directions at a tile, for one look: what was not kept before is not kept now."""
        tile = coordinates.start // self.width
        if self._room is not None and self._kept[:, tile].all():
            return self.rows(range(self.q), coordinates)
        shape = (1, self.q, len(coordinates))
        if self._scratch.shape != shape:
            self._scratch = torch.empty(shape, device=self._sampler.device)
        self._sampler.fill(self._scratch, self._step, range(self.q), coordinates)
        return self._scratch

    def gram(self) -> Tensor:
        """UᵀU; of random signs by counting bits, of others summed in float64 over tiles."""
        if isinstance(self._sampler, Rademacher) and self._sampler.packs:
            return torch.from_numpy(self._sampler.gram(self._step, self.q))[None]
        return super().gram()

    def _diagonal(self) -> Tensor:
        if isinstance(self._sampler, Rademacher):
            return self._zeros(self.q) + self.dim
        return super()._diagonal()

    def _is_tile(self, coordinates: range) -> bool:
        whole = min(coordinates.start + self.width, self.dim)
        return coordinates.start % self.width == 0 and coordinates.stop == whole
