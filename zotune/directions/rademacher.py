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


@register("rademacher", signs=True)
class Rademacher(TiledSampler):
    """Independent random signs; a square block is often singular at small d."""

    unit = 64

    def _draw(self, out: Tensor, generator: torch.Generator) -> None:
        words = draw_words(out.numel(), generator)
        if out.device.type == "cpu":
            write_signs(words.numpy().view(np.uint64), out.view(-1))
        else:
            out.copy_(unpack(words).view_as(out))

    @property
    def packs(self) -> bool:
        """Whether rows are long enough to be looked at as ``words`` of 64 bits."""
        return self._rows == 1 and self.device.type == "cpu"

    def words(self, step: int, query: int, chunk: int) -> Words:
        """A tile of one direction as bits, of the first replicate; past its end they are 0."""
        size = min(self._width, self.dim - chunk * self._width)
        generator = self._generators.first(step, query, chunk)
        words = draw_words(self._padded(size), generator).numpy().view(np.uint64)
        if size % 64:
            words[-1] &= np.uint64(2 ** (size % 64) - 1)
        return words


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


def write_signs(words: Words, out: Tensor) -> None:
    """Write the first bits of words as −1 or 1 to a row on the CPU, by a table of octets."""
    octets, signs, table = words.view(np.uint8), out.numpy(), _signs_of_octets()
    whole = len(signs) // 8
    np.take(table, octets[:whole], axis=0, out=signs[: 8 * whole].reshape(-1, 8), mode="clip")
    if len(signs) % 8:
        signs[8 * whole :] = table[octets[whole], : len(signs) % 8]


@cache
def _signs_of_octets() -> npt.NDArray[np.float32]:
    """The signs of the eight bits of each octet: a table that stays cached."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return 2 * bits.astype(np.float32) - 1
