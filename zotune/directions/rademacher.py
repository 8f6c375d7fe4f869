"""Random signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotune._lazy import LazyModule
from zotune.directions import TiledSampler, register

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")


@register("rademacher")
class Rademacher(TiledSampler):
    """Independent random signs; a square block is often singular at small d."""

    unit = 64

    def _draw(self, out: Tensor, generator: torch.Generator) -> None:
        out.copy_(unpack(draw_words(out.numel(), generator)).view_as(out))


def draw_words(bits: int, generator: torch.Generator) -> Tensor:
    """Random words of 64 bits, the sign bit included, enough for ``bits``."""
    words = torch.empty(bits // 64, dtype=torch.int64, device=generator.device)
    return words.random_(-(2**63), None, generator=generator)


def unpack(words: Tensor) -> Tensor:
    """Each bit as −1 or 1, in int8."""
    octets = words.view(torch.uint8)
    shifts = torch.arange(8, dtype=torch.uint8, device=words.device)
    bits = (octets[:, None] >> shifts) & 1
    return bits.view(torch.int8).mul_(2).sub_(1).flatten()
