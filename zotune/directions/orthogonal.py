"""Dense orthogonal directions in closed form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zotune._lazy import LazyModule
from zotune.addresses import Keys, extend, permute
from zotune.directions import Sampler, register
from zotune.directions.rademacher import Rademacher

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")

_SIGNS, _ROWS = 0, 1


@register("orthogonal", orthogonal=True)
class Orthogonal(Sampler):
    """Rows of the Hartley matrix in random order, under random signs: UᵀU = d·I for every d.

    u_i[j] = s[j] · cas(2π π(i) j / d) with cas = cos + sin, one vector s of signs and one
    permutation π a step. Every entry has a closed form, so any part is computed alone. Unlike
    Walsh rows it needs no d that is a power of two.
    """

    def __init__(self, dim: int, keys: Keys, device: torch.device) -> None:
        super().__init__(dim, keys, device)
        self._signs = Rademacher(dim, extend(keys, _SIGNS), device)
        self._row_keys = extend(keys, _ROWS)
        short = dim <= 2**20
        self._table = self._cas(torch.arange(dim, device=device)) if short else None

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        """Look the entries up by row · column mod d, then apply the step's signs."""
        index = np.arange(queries.start, queries.stop, dtype=np.uint64)
        rows = permute(extend(self._row_keys, step), index, self.dim)
        columns = torch.arange(coordinates.start, coordinates.stop, device=self.device)
        place = torch.from_numpy(rows).to(self.device)[..., None] * columns % self.dim
        out.copy_(self._cas(place) if self._table is None else self._table[place])
        signs = out.new_empty(len(self.keys), 1, len(coordinates))
        self._signs.fill(signs, step, range(1), coordinates)
        out *= signs

    def _cas(self, place: Tensor) -> Tensor:
        angle = place.double() * (2 * math.pi / self.dim)
        return angle.cos() + angle.sin()
