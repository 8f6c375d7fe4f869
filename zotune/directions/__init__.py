"""Directions by address: the q × d block of a step, drawn, computed or replayed in any part.

One file a kind. A kind is a ``Sampler`` that fills any rectangle (queries × coordinates) of the
block of any step, for all replicates at once, as a pure function of the address. A direction is
therefore the same drawn alone, in a block, among replicates, in another process and after a resume.
All kinds have norm √d, exactly or in the mean, and E uuᵀ = I.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from zotune._lazy import LazyModule
from zotune.addresses import Generators, Keys, extend
from zotune.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")

TILE = 2**16
"""Values drawn under one key; a part of the address, so changing it changes every run."""


class Sampler(ABC):
    """Fills parts of a step's block; ``keys`` holds one address a replicate."""

    def __init__(self, dim: int, keys: Keys, device: torch.device) -> None:
        self.dim = dim
        self.keys = keys
        self.device = device

    @property
    def chunk(self) -> int:
        """The width of coordinates that is cheapest to ask for at a time."""
        return min(self.dim, TILE)

    @abstractmethod
    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        """Write directions ``queries`` at ``coordinates`` to ``out`` (replicates, queries, …)."""


class TiledSampler(Sampler):
    """Independent entries, drawn in tiles of whole rows or, for long rows, of fixed chunks.

    A tile has one key. Its rows are padded to a multiple of ``unit`` values, because torch draws
    differently at the end of an array that is not.
    """

    unit: ClassVar[int]

    def __init__(self, dim: int, keys: Keys, device: torch.device) -> None:
        super().__init__(dim, keys, device)
        self._width = min(self._padded(dim), TILE)
        self._rows = max(1, TILE // self._width)
        self._generators = Generators(device)
        self._scratch = torch.empty(0)

    @abstractmethod
    def _draw(self, out: Tensor, generator: torch.Generator) -> None:
        """Fill a contiguous ``out`` (rows, width) from the generator."""

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        """Copy the wanted part of every tile that the rectangle touches."""
        for tile, rows, into_rows in _pieces(queries, self._rows):
            for chunk, columns, into_columns in _pieces(coordinates, self._width):
                drawn = self._tile(extend(self.keys, step, tile, chunk), chunk, rows.stop)
                out[:, into_rows, into_columns].copy_(drawn[:, rows, columns])

    def _tile(self, keys: Keys, chunk: int, rows: int) -> Tensor:
        """The first rows of a tile; devices whose draws depend on the size draw it whole."""
        width = min(self._width, self._padded(self.dim - chunk * self._width))
        rows = rows if self._generators.prefix_stable else self._rows
        shape = (len(keys), rows, width)
        if self._scratch.shape != shape:
            self._scratch = torch.empty(shape, device=self.device, dtype=torch.float32)
        for part, generator in zip(self._scratch, self._generators.at(keys), strict=True):
            self._draw(part, generator)
        return self._scratch

    def _padded(self, n: int) -> int:
        return -(-n // self.unit) * self.unit


def _pieces(wanted: range, size: int) -> Iterator[tuple[int, slice, slice]]:
    """Cut a range at multiples of ``size``: index, slice inside the piece, slice of the range."""
    start = wanted.start
    while start < wanted.stop:
        index = start // size
        stop = min(wanted.stop, (index + 1) * size)
        inside = slice(start - index * size, stop - index * size)
        yield index, inside, slice(start - wanted.start, stop - wanted.start)
        start = stop


@dataclass(frozen=True)
class Directions:
    """An entry of the registry: the sampler and what the theory needs to know of it."""

    name: str
    summary: str
    sampler: type[Sampler]
    orthogonal: bool = False
    """UᵀU = d·I exactly; a block then has at most d directions and needs no solve."""
    random_norm: bool = False
    """‖u‖² has the spread of a Gaussian's; else it is d exactly."""


DIRECTIONS: Registry[Directions] = Registry("directions", __name__)


def register(
    name: str, *, orthogonal: bool = False, random_norm: bool = False
) -> Callable[[type[Sampler]], type[Sampler]]:
    """Register the decorated sampler under ``name``, which must be new."""

    def add(sampler: type[Sampler]) -> type[Sampler]:
        summary = (sampler.__doc__ or "").strip().split("\n")[0]
        DIRECTIONS.add(name, Directions(name, summary, sampler, orthogonal, random_norm))
        return sampler

    return add
