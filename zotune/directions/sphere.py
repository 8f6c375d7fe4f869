"""Uniform directions on the sphere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotune._lazy import LazyModule
from zotune.directions import register
from zotune.directions.gaussian import Gaussian

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")


@register("sphere")
class Sphere(Gaussian):
    """Uniform on the sphere of radius √d: the Gaussian direction, rescaled."""

    _scaled: tuple[int, range, Tensor] | None = None

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        """Draw, then scale each row by √d over the norm of the whole row."""
        super().fill(out, step, queries, coordinates)
        if self._scaled is None or self._scaled[:2] != (step, queries):
            self._scaled = (step, queries, self._scales(step, queries))
        out *= self._scaled[2].to(out.dtype)

    def _scales(self, step: int, queries: range) -> Tensor:
        """√d / ‖u‖, summed chunk by chunk in float64 whatever part is asked for."""
        square = torch.zeros(len(self.keys), len(queries), 1, device=self.device).double()
        for start in range(0, self.dim, self.chunk):
            part = range(start, min(start + self.chunk, self.dim))
            entries = square.new_empty(len(self.keys), len(queries), len(part))
            super().fill(entries, step, queries, part)
            square += entries.square().sum(-1, keepdim=True)
        return (self.dim / square).sqrt()
