"""Standard normal directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotune.directions import TiledSampler, register

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@register("gaussian", random_norm=True)
class Gaussian(TiledSampler):
    """Independent standard normal entries, drawn in float32."""

    unit = 16

    def _draw(self, out: Tensor, generator: torch.Generator) -> None:
        out.normal_(generator=generator)
