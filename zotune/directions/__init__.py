"""Directions by address: the q × d block of random directions of a step.

One file per kind. A kind is a ``Sampler`` that fills any rectangle (queries × coordinates) of the
block of any step, for all replicates at once, as a pure function of the address. A direction is
therefore the same whether it is drawn alone, in a block, with other replicates, in another process
or after a resume. All kinds have norm √d, exactly or in the mean, and E uuᵀ = I.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from zotune._lazy import LazyModule
from zotune.addresses import Generators, Keys
from zotune.registry import Registry, summary_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")

TILE = 2**16
"""Number of values drawn with one key; a part of the address, so a change changes every run."""
SHARED_STEPS = 8
"""Number of steps whose first directions share a tile."""
FIRSTS = -1
"""The index of that tile in addresses."""
TOGETHER = 2**17
"""Number of values drawn for several replicates before they are copied; fits in the cache."""


class Sampler(ABC):
    """Fills parts of a step's block; ``keys`` holds one address per replicate."""

    def __init__(self, dim: int, keys: Keys, device: torch.device) -> None:
        self.dim = dim
        self.keys = keys
        self.device = device

    @property
    def chunk(self) -> int:
        """The number of coordinates that is most efficient to request at a time."""
        return min(self.dim, TILE)

    @abstractmethod
    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        """Write directions ``queries`` at ``coordinates`` to ``out`` (replicates, queries, …)."""

    def expect(self, out: Tensor) -> None:  # noqa: B027
        """Prepare for ``out`` being filled with the first directions of successive steps."""


class Tile(NamedTuple):
    """A tile to draw, for a few replicates at a time into a scratch buffer that stays cached."""

    tile: int
    chunk: int
    parts: Sequence[tuple[Sequence[Tensor], Tensor, Tensor]]
    """Buffers of each replicate, the part of them that is used, and its destination."""


class FillPlan(NamedTuple):
    """The tiles that a rectangle of a block is filled from, and their destinations."""

    first: Tensor | None
    """Destination of the first direction, if it is requested and shares its tile."""
    tiles: Sequence[Tile]


class TiledSampler(Sampler):
    """Independent entries, drawn in tiles of whole rows or, for long rows, of fixed chunks.

    A tile has one key. Its rows are padded to a multiple of ``unit`` values, because torch draws
    the end of other arrays differently. Seeding a generator costs as much as drawing a thousand
    numbers, so if rows are short, the first directions of several steps share a tile: a run with
    one direction per step then seeds it every eighth step only.
    """

    unit: ClassVar[int]

    def __init__(self, dim: int, keys: Keys, device: torch.device) -> None:
        super().__init__(dim, keys, device)
        self._width = min(self._padded(dim), TILE)
        self._rows = max(1, TILE // self._width)
        self._shared_steps = SHARED_STEPS if self._rows >= SHARED_STEPS else 0
        self._generators = Generators(keys, device)
        self._scratches: dict[tuple[int, int], Tensor] = {}
        self._firsts: tuple[int | None, Sequence[Tensor], Sequence[Tensor]] | None = None
        self._expected: tuple[Tensor, FillPlan] | None = None

    @abstractmethod
    def _draw(self, out: Tensor, generator: torch.Generator) -> None:
        """Fill a contiguous ``out`` (rows, width) from the generator."""

    def expect(self, out: Tensor) -> None:
        """Make the views once: after an evaluation, one costs as much as a hundred draws."""
        self._expected = out, self._plan(out, range(out.shape[1]), range(self.dim))

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        """Copy the requested part of every tile that the rectangle overlaps."""
        if self._rows == 1 and self._is_one_tile(out, coordinates):
            for query, row in zip(queries, out[0], strict=True):
                chunk = coordinates.start // self._width
                self._draw(row, self._generators.first(step, query, chunk))
            return
        if self._expected is not None and self._expected[0] is out and queries.start == 0:
            first, tiles = self._expected[1]
        else:
            first, tiles = self._plan(out, queries, coordinates)
        if first is not None:
            first.copy_(self._first(step, coordinates))
        for tile, chunk, parts in tiles:
            generators = self._generators.at(step, tile, chunk)
            for drawn, wanted, into in parts:
                for replicate, generator in zip(drawn, generators, strict=False):
                    self._draw(replicate, generator)
                into.copy_(wanted)

    def _plan(self, out: Tensor, queries: range, coordinates: range) -> FillPlan:
        """Split a rectangle into the tiles that it overlaps."""
        first = None
        if self._shared_steps:
            if queries.start == 0:
                first, out, queries = out[:, :1], out[:, 1:], queries[1:]
            queries = range(queries.start - 1, queries.stop - 1)
        tiles = [
            self._tile(tile, chunk, rows, columns, out[:, into_rows, into_columns])
            for tile, rows, into_rows in _pieces(queries, self._rows)
            for chunk, columns, into_columns in _pieces(coordinates, self._width)
        ]
        return FillPlan(first, tiles)

    def _tile(self, tile: int, chunk: int, rows: slice, columns: slice, into: Tensor) -> Tile:
        """The first rows of a tile; the whole tile on devices whose draws depend on the size."""
        width = min(self._width, self._padded(self.dim - chunk * self._width))
        drawn = rows.stop if self._generators.prefix_stable else self._rows
        scratch = self._scratch((drawn, width))
        parts = []
        for replicates in torch.split(into, len(scratch)):
            some = scratch[: len(replicates)]
            parts.append((some.unbind(), some[:, rows, columns], replicates))
        return Tile(tile, chunk, parts)

    def _is_one_tile(self, out: Tensor, coordinates: range) -> bool:
        """Whether a part of long rows is exactly one tile, which needs no scratch buffer."""
        return (
            len(coordinates) == self._width
            and coordinates.start % self._width == 0
            and len(out) == 1
            and out.dtype == torch.float32
            and out.stride(-1) == 1
        )

    def _first(self, step: int, coordinates: range) -> Tensor:
        """The first direction of a step, (replicates, 1, …), cached with those in its tile."""
        tile, row = divmod(step, self._shared_steps)
        if self._firsts is None:
            shape = (len(self.keys), SHARED_STEPS, self._width)
            kept = torch.empty(shape, dtype=torch.float32, device=self.device)
            self._firsts = None, kept.unbind(), torch.split(kept[..., : self.dim], 1, dim=1)
        at, tiles, rows = self._firsts
        if at != tile:
            self._firsts = None, tiles, rows  # invalid until drawn, in case of an interrupt
            for out, generator in zip(tiles, self._generators.at(tile, FIRSTS, 0), strict=True):
                self._draw(out, generator)
            self._firsts = tile, tiles, rows
        whole = len(coordinates) == self.dim
        return rows[row] if whole else rows[row][..., coordinates.start : coordinates.stop]

    def _scratch(self, shape: tuple[int, int]) -> Tensor:
        """Scratch buffer for a tile of the replicates that are drawn before a copy."""
        if shape not in self._scratches:
            together = min(len(self.keys), max(1, TOGETHER // (shape[0] * shape[1])))
            scratch = torch.empty(together, *shape, dtype=torch.float32, device=self.device)
            self._scratches[shape] = scratch
        return self._scratches[shape]

    def _padded(self, n: int) -> int:
        return -(-n // self.unit) * self.unit


def _pieces(wanted: range, size: int) -> Iterator[tuple[int, slice, slice]]:
    """Split a range at multiples of ``size``: index, slice in the piece, slice of the range."""
    start = wanted.start
    while start < wanted.stop:
        index = start // size
        stop = min(wanted.stop, (index + 1) * size)
        inside = slice(start - index * size, stop - index * size)
        yield index, inside, slice(start - wanted.start, stop - wanted.start)
        start = stop


@dataclass(frozen=True)
class Directions:
    """An entry of the registry: the sampler and its properties for the theory."""

    name: str
    summary: str
    sampler: type[Sampler]
    orthogonal: bool = False
    """Whether UᵀU = d·I exactly; a block then has at most d directions and needs no solve."""
    random_norm: bool = False
    """Whether ‖u‖² has the distribution of a Gaussian vector's; else it is d exactly."""
    signs: bool = False
    """Whether entries are signs, so that directions may be linearly dependent."""


DIRECTIONS: Registry[Directions] = Registry("directions", __name__, lambda e: e.sampler)


def register(
    name: str, *, orthogonal: bool = False, random_norm: bool = False, signs: bool = False
) -> Callable[[type[Sampler]], type[Sampler]]:
    """Register the decorated sampler under ``name``, which must be new."""

    def add(sampler: type[Sampler]) -> type[Sampler]:
        about = summary_of(sampler)
        DIRECTIONS.add(name, Directions(name, about, sampler, orthogonal, random_norm, signs))
        return sampler

    return add
