"""Random signs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zotune._lazy import LazyModule
from zotune.directions import TiledSampler, register

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")

Words = npt.NDArray[np.uint64]


@register("rademacher")
class Rademacher(TiledSampler):
    """Independent random signs; a square block is often singular at small d."""

    unit = 64

    def _draw(self, out: Tensor, generator: torch.Generator) -> None:
        out.copy_(unpack(draw_words(out.numel(), generator)).view_as(out))

    @property
    def packs(self) -> bool:
        """Whether rows are long enough to be looked at as ``words`` of 64 bits."""
        return self._rows == 1 and self.device.type == "cpu"

    def words(self, step: int, query: int, chunk: int) -> Words:
        """A tile of one direction as bits, of the first replicate; past its end they are 0."""
        size = min(self._width, self.dim - chunk * self._width)
        generator = next(self._generators.at(step, query, chunk))
        words = draw_words(self._padded(size), generator).numpy().view(np.uint64)
        if size % 64:
            words[-1] &= np.uint64(2 ** (size % 64) - 1)
        return words

    def gram(self, step: int, q: int) -> npt.NDArray[np.float64]:
        """UᵀU of the first replicate, exact: d less twice the bits in which two rows differ."""
        differ = np.zeros((q, q), dtype=np.int64)
        for chunk in range(-(-self.dim // self._width)):
            words = np.stack([self.words(step, query, chunk) for query in range(q)])
            for i in range(1, q):
                differ[i, :i] += np.bitwise_count(words[:i] ^ words[i]).sum(-1, dtype=np.int64)
        return (self.dim - 2 * (differ + differ.T)).astype(np.float64)


def draw_words(bits: int, generator: torch.Generator) -> Tensor:
    """Random words of 64 bits, the sign bit included, enough for ``bits``."""
    words = torch.empty(bits // 64, dtype=torch.int64, device=generator.device)
    return words.random_(-(2**63), None, generator=generator)


def unpack(words: Tensor) -> Tensor:
    """Each bit as −1 or 1; by a table of octets on the CPU, where that is five times faster."""
    if words.device.type == "cpu":
        return torch.from_numpy(_signs_of_octets()[words.numpy().view(np.uint8)]).flatten()
    octets = words.view(torch.uint8)
    shifts = torch.arange(8, dtype=torch.uint8, device=words.device)
    bits = (octets[:, None] >> shifts) & 1
    return bits.view(torch.int8).mul_(2).sub_(1).flatten()


@cache
def _signs_of_octets() -> npt.NDArray[np.float32]:
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return 2 * bits.astype(np.float32) - 1
