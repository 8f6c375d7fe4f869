"""Directions by address: the q × d block of a step, drawn, computed or replayed in any part.

One file a kind. A kind is a ``Sampler`` that fills any rectangle (queries × coordinates) of the
block of any step, for all replicates at once, as a pure function of the address. A direction is
therefore the same drawn alone, in a block, among replicates, in another process and after a resume.
All kinds have norm √d, exactly or in the mean, and E uuᵀ = I.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from zotune._lazy import LazyModule
from zotune.addresses import Generators, Keys
from zotune.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")

TILE = 2**16
"""Values drawn under one key; a part of the address, so changing it changes every run."""
SHARED_STEPS = 8
"""Steps whose first directions share a tile."""
FIRSTS = -1
"""The address of that tile among those of a step."""
TOGETHER = 2**17
"""Values of several replicates that are drawn before one copy; more would leave the cache."""


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
    differently at the end of an array that is not. Setting a generator costs as much as drawing a
    thousand numbers, so the first directions of several steps share a tile where rows are short:
    a run with one direction a step then sets it every eighth step.
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

    @abstractmethod
    def _draw(self, out: Tensor, generator: torch.Generator) -> None:
        """Fill a contiguous ``out`` (rows, width) from the generator."""

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        """Copy the wanted part of every tile that the rectangle touches."""
        if self._is_one_tile(out, coordinates):
            for query, row in zip(queries, out[0], strict=True):
                chunk = coordinates.start // self._width
                self._draw(row, self._generators.first(step, query, chunk))
            return
        if self._shared_steps:
            if queries.start == 0:
                first = self._first(step)
                if len(coordinates) != self.dim:
                    first = first.narrow(2, coordinates.start, len(coordinates))
                out.narrow(1, 0, 1).copy_(first)
                if len(queries) == 1:
                    return
                out, queries = out[:, 1:], range(1, queries.stop)
            queries = range(queries.start - 1, queries.stop - 1)
        for tile, rows, into_rows in _pieces(queries, self._rows):
            for chunk, columns, into_columns in _pieces(coordinates, self._width):
                into = out[:, into_rows, into_columns]
                for replicates, drawn in self._tile(step, tile, chunk, rows.stop):
                    into[replicates].copy_(drawn[:, rows, columns])

    def _is_one_tile(self, out: Tensor, coordinates: range) -> bool:
        """Whether a part is one tile of long rows, which can be drawn where it belongs."""
        return (
            self._rows == 1
            and len(coordinates) == self._width
            and coordinates.start % self._width == 0
            and len(out) == 1
            and out.dtype == torch.float32
            and out.stride(-1) == 1
        )

    def _first(self, step: int) -> Tensor:
        """The first direction of a step, (replicates, 1, d), kept with those beside it."""
        tile, row = divmod(step, self._shared_steps)
        if self._firsts is None:
            shape = (len(self.keys), SHARED_STEPS, self._width)
            kept = torch.empty(shape, dtype=torch.float32, device=self.device)
            self._firsts = None, kept.unbind(), torch.split(kept[..., : self.dim], 1, dim=1)
        at, tiles, rows = self._firsts
        if at != tile:
            self._firsts = None, tiles, rows  # an interrupt must not leave half of it as drawn
            for out, generator in zip(tiles, self._generators.at(tile, FIRSTS, 0), strict=True):
                self._draw(out, generator)
            self._firsts = tile, tiles, rows
        return rows[row]

    def _tile(self, step: int, tile: int, chunk: int, rows: int) -> Iterator[tuple[slice, Tensor]]:
        """The first rows of a tile; devices whose draws depend on the size draw it whole."""
        width = min(self._width, self._padded(self.dim - chunk * self._width))
        shape = (rows if self._generators.prefix_stable else self._rows, width)
        return self._drawn(step, tile, chunk, shape)

    def _drawn(
        self, step: int, tile: int, chunk: int, shape: tuple[int, int]
    ) -> Iterator[tuple[slice, Tensor]]:
        """A tile of that shape, some replicates at a time, in a scratch that stays cached."""
        scratch = self._scratch(shape)
        together, first = len(scratch), 0
        parts = scratch.unbind()
        for at, generator in enumerate(self._generators.at(step, tile, chunk)):
            self._draw(parts[at - first], generator)
            if at - first + 1 == together or at + 1 == len(self.keys):
                yield slice(first, at + 1), scratch[: at + 1 - first]
                first = at + 1

    def _scratch(self, shape: tuple[int, int]) -> Tensor:
        """Room for a tile of as many replicates as are drawn before one copy."""
        if shape not in self._scratches:
            together = min(len(self.keys), max(1, TOGETHER // (shape[0] * shape[1])))
            room = torch.empty(together, *shape, dtype=torch.float32, device=self.device)
            self._scratches[shape] = room
        return self._scratches[shape]

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


DIRECTIONS: Registry[Directions] = Registry("directions", __name__, lambda e: e.sampler)


def register(
    name: str, *, orthogonal: bool = False, random_norm: bool = False
) -> Callable[[type[Sampler]], type[Sampler]]:
    """Register the decorated sampler under ``name``, which must be new."""

    def add(sampler: type[Sampler]) -> type[Sampler]:
        summary = (sampler.__doc__ or "").strip().split("\n")[0]
        DIRECTIONS.add(name, Directions(name, summary, sampler, orthogonal, random_norm))
        return sampler

    return add
