"""Where the trained parameters stand in the vector, cut into the tiles that directions come in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from typing import NamedTuple

from torch import Tensor
from torch.nn import Parameter

Span = tuple[int, int]
"""Start and stop in the vector."""


class Piece(NamedTuple):
    """A stretch of one parameter inside one tile."""

    name: str
    inside: slice
    """Of the parameter, flattened."""
    of_tile: slice
    of_vector: slice


class Layout:
    """The vector in R^d as names, offsets and tiles.

    Args:
        trained: name → parameter, in the order of the vector.
        width: coordinates of a tile.
    """

    def __init__(self, trained: Mapping[str, Parameter], width: int) -> None:
        self.sizes = {name: p.numel() for name, p in trained.items()}
        self.row = {name: p.numel() // max(1, len(p)) for name, p in trained.items() if p.dim() > 1}
        self.starts = dict(
            zip(self.sizes, accumulate(self.sizes.values(), initial=0), strict=False)
        )
        self.dim = sum(self.sizes.values())
        self.width = width
        whole = {name: [(0, size)] for name, size in self.sizes.items()}
        self.tiles = [range(at, min(at + width, self.dim)) for at in range(0, self.dim, width)]
        self.pieces = self._cut(whole)
        """Of each tile, all that is in it."""

    def seen(self, touched: Mapping[str, Tensor]) -> list[list[Piece]]:
        """Of each tile, the pieces whose rows a mini-batch can see."""
        if not touched:
            return self.pieces
        limited = {name: runs(rows, self.row.get(name, 1)) for name, rows in touched.items()}
        kept = [[p for p in pieces if p.name not in limited] for pieces in self.pieces]
        extra = self._cut(limited)
        return [mine + more for mine, more in zip(kept, extra, strict=True)]

    def of(self, name: str, start: int, stop: int) -> Iterator[tuple[int, Piece]]:
        """The tiles, by index, that hold a stretch of one parameter."""
        at = self.starts[name]
        for tile in range((at + start) // self.width, -(-(at + stop) // self.width)):
            first = max(at + start, self.tiles[tile].start)
            last = min(at + stop, self.tiles[tile].stop)
            yield tile, self._piece(name, first, last, self.tiles[tile].start)

    def _cut(self, spans: Mapping[str, list[Span]]) -> list[list[Piece]]:
        pieces: list[list[Piece]] = [[] for _ in self.tiles]
        for name, stretches in spans.items():
            for start, stop in stretches:
                for tile, piece in self.of(name, start, stop):
                    pieces[tile].append(piece)
        return pieces

    def _piece(self, name: str, first: int, last: int, tile_start: int) -> Piece:
        at = self.starts[name]
        return Piece(
            name,
            slice(first - at, last - at),
            slice(first - tile_start, last - tile_start),
            slice(first, last),
        )


def runs(rows: Tensor, width: int) -> list[Span]:
    """Sorted rows as stretches of a flattened parameter, neighbours joined."""
    found = rows.tolist()
    if not found:
        return []
    breaks = [k for k, (a, b) in enumerate(pairwise(found), start=1) if b != a + 1]
    edges = zip([0, *breaks], [*breaks, len(found)], strict=True)
    return [(found[a] * width, (found[b - 1] + 1) * width) for a, b in edges]
