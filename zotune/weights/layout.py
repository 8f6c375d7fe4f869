"""The mapping from coordinates of the vector to trained parameters, and its division into tiles.

Directions are drawn in tiles of the vector. The vector has all trained parameters, or only the rows
that a mini-batch uses, as the loss of a step does not depend on the others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from torch import Tensor
from torch.nn import Parameter

Span = tuple[int, int]
"""Start and stop in a parameter, flattened."""


class Piece(NamedTuple):
    """A contiguous range of one parameter inside one tile."""

    name: str
    inside: slice
    """The range in the flattened parameter."""
    of_tile: slice


class Layout:
    """The vector as a sequence of ranges of parameters, divided into tiles.

    Args:
        spans: name → sorted ranges of that parameter, in the order of the vector.
        width: coordinates per tile.
        shapes: name → how many numbers the parameter and one of its rows have.
    """

    def __init__(
        self, spans: Mapping[str, list[Span]], width: int, shapes: Mapping[str, tuple[int, int]]
    ) -> None:
        self.width = width
        self._spans = spans
        self._shapes = shapes
        self._places: dict[str, list[int]] = {}
        """Where each range begins in the vector."""
        self.dim = 0
        for name, stretches in spans.items():
            self._places[name] = []
            for start, stop in stretches:
                self._places[name].append(self.dim)
                self.dim += stop - start
        self.tiles = [range(at, min(at + width, self.dim)) for at in range(0, self.dim, width)]
        self.pieces = self._cut(spans)
        """The pieces of each tile."""
        self.is_whole = self.dim == sum(size for size, _ in shapes.values())

    @classmethod
    def of_all(cls, trained: Mapping[str, Parameter], width: int) -> Layout:
        """All numbers of all parameters, in their order."""
        shapes = {name: (p.numel(), p[:1].numel() if p.dim() else 1) for name, p in trained.items()}
        return cls({name: [(0, size)] for name, (size, _) in shapes.items()}, width, shapes)

    def seen(self, touched: Mapping[str, Tensor]) -> Layout:
        """The layout for a mini-batch: parameters used as a whole, then the used rows of others."""
        if not touched:
            return self
        whole = {name: spans for name, spans in self._spans.items() if name not in touched}
        rows = {name: self.runs(name, rows) for name, rows in touched.items()}
        return Layout(whole | rows, self.width, self._shapes)

    def within(self, touched: Mapping[str, Tensor]) -> list[list[Piece]]:
        """The pieces of each tile whose rows a mini-batch uses."""
        if not touched:
            return self.pieces
        limited = {name: self.runs(name, rows) for name, rows in touched.items()}
        kept = [[p for p in pieces if p.name not in limited] for pieces in self.pieces]
        extra = self._cut(limited)
        return [mine + more for mine, more in zip(kept, extra, strict=True)]

    def runs(self, name: str, rows: Tensor) -> list[Span]:
        """Sorted rows of a parameter as ranges of it."""
        return runs(rows, self._shapes[name][1])

    def of(self, name: str, start: int, stop: int) -> Iterator[tuple[int, Piece]]:
        """The parts of a parameter's range that are in the vector: index of the tile, piece."""
        spans, places = self._spans[name], self._places[name]
        for k in range(bisect_right(spans, start, key=lambda span: span[1]), len(spans)):
            first, last = max(start, spans[k][0]), min(stop, spans[k][1])
            if first >= last:
                return
            yield from self._tiled(name, first, last, places[k] + first - spans[k][0])

    def _tiled(self, name: str, first: int, last: int, at: int) -> Iterator[tuple[int, Piece]]:
        """A range that begins at position ``at`` of the vector, divided at tile ends."""
        while first < last:
            tile, offset = divmod(at, self.width)
            size = min(last - first, self.width - offset)
            yield tile, Piece(name, slice(first, first + size), slice(offset, offset + size))
            first, at = first + size, at + size

    def _cut(self, spans: Mapping[str, list[Span]]) -> list[list[Piece]]:
        pieces: list[list[Piece]] = [[] for _ in self.tiles]
        for name, stretches in spans.items():
            for start, stop in stretches:
                for tile, piece in self.of(name, start, stop):
                    pieces[tile].append(piece)
        return pieces


def runs(rows: Tensor, width: int) -> list[Span]:
    """Sorted rows as ranges of a flattened parameter, with adjacent rows merged."""
    found = rows.tolist()
    if not found:
        return []
    breaks = [k for k, (a, b) in enumerate(pairwise(found), start=1) if b != a + 1]
    edges = zip([0, *breaks], [*breaks, len(found)], strict=True)
    return [(found[a] * width, (found[b - 1] + 1) * width) for a, b in edges]
