"""Coordinate directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zotune._lazy import LazyModule
from zotune.addresses import extend, permute
from zotune.directions import Sampler, register

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")


@register("coordinate", orthogonal=True)
class Coordinate(Sampler):
    """√d times unit vectors, drawn without replacement within a block."""

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        """Place one entry a row where the step's permutation sends the query."""
        index = np.arange(queries.start, queries.stop, dtype=np.uint64)
        at = torch.from_numpy(permute(extend(self.keys, step), index, self.dim)).to(self.device)
        at -= coordinates.start
        inside = (at >= 0) & (at < len(coordinates))
        entries = inside.to(out.dtype) * self.dim**0.5
        out.zero_().scatter_(2, at.where(inside, 0)[..., None], entries[..., None])
