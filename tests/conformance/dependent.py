"""Directions that depend on each other, as every kind of block holds them."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from zotune.addresses import Keys, replicate_keys
from zotune.blocks import Block, DenseBlock, ReplayedBlock
from zotune.directions import TILE, Directions, Sampler
from zotune.directions.rademacher import Rademacher, Words
from zotune.weights.block import BlockCache, SignBlock

CPU = torch.device("cpu")
KEYS = replicate_keys("directions", 0, [0])
THREE_OF_FOUR = torch.tensor(
    [[1.0, -1, -1, 1], [-1, 1, 1, -1], [-1, 1, -1, 1], [-1, -1, 1, -1]], dtype=torch.float64
)
"""Of rank 3; the dependent direction is not the last."""


def dependent_rows() -> dict[str, Tensor]:
    """Blocks (q, d) of less than full rank."""
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(6, 12, dtype=torch.float64, generator=generator)
    mixed = torch.randint(-2, 3, (11, 6), generator=generator).double() @ base
    axes = torch.eye(5, dtype=torch.float64)
    signs = {f"signs-{i}": rows for i, rows in enumerate(_singular_signs())}
    return signs | {
        "three-of-four": THREE_OF_FOUR,
        "few-repeated": base[[0, 0, 1, 1, 2]],
        "many-mixed": mixed,
        "square-mixed": torch.cat([mixed, base[:1]]),
        "rescaled": torch.cat([100 * base[:3], -0.01 * base[:3], base[3:4]]),
        "axes-repeated": axes[[3, 3, 0, 0, 1]],
        "nothing-between": torch.cat([base[:2], torch.zeros_like(base[:1]), base[2:5]]),
        "all-the-same": base[[0] * 8],
    }


def _singular_signs() -> list[Tensor]:
    """Singular blocks of signs: of d = 3 all that differ, of d = 5 some."""
    signs = list(itertools.product((-1.0, 1.0), repeat=3))
    small = torch.tensor(list(itertools.product(signs, repeat=3)), dtype=torch.float64)
    large = torch.randint(0, 2, (60, 5, 5), generator=torch.Generator().manual_seed(0)) * 2.0 - 1
    every = [*small[::7], *large.double()]
    return [rows for rows in every if torch.linalg.matrix_rank(rows) < len(rows)]


class Given(Sampler):
    """Fills blocks from rows that are there."""

    def __init__(self, rows: Tensor, keys: Keys = KEYS) -> None:
        super().__init__(rows.shape[-1], keys, CPU)
        self._rows = rows

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        """Copy the rectangle."""
        part = self._rows[queries.start : queries.stop, coordinates.start : coordinates.stop]
        out.copy_(part)


class RepeatedSigns(Rademacher):
    """Every second direction is the one before it."""

    def words(self, step: int, query: int, chunk: int) -> Words:
        """Those of the direction before, where the number is odd."""
        return super().words(step, query // 2 * 2, chunk)


def dense(rows: Tensor) -> Block:
    """In float64, in memory."""
    return DenseBlock(rows[None])


def dense_float32(rows: Tensor) -> Block:
    """In float32, in memory."""
    return DenseBlock(rows[None].float())


def replayed(rows: Tensor) -> Block:
    """Filled again a coordinate at a time."""
    return ReplayedBlock(Given(rows), 0, len(rows), dtype=torch.float64, max_bytes=1)


def tiles(rows: Tensor) -> Block:
    """As the weights of a module have it."""
    kind = Directions("given", "Rows that are there.", lambda *_: Given(rows))  # type: ignore[arg-type]
    cache = BlockCache(kind, KEYS, CPU, dim=rows.shape[1], q=len(rows), may_keep=0)
    return cache.block(0, len(rows), rows.shape[1])


def repeated_signs() -> SignBlock:
    """Six packed directions of rank 3."""
    dim = TILE + 1000
    kind = Directions("repeated", "Pairs of the same signs.", RepeatedSigns, signs=True)
    block = BlockCache(kind, KEYS, CPU, dim=dim, q=6, may_keep=2**20).block(0, 6, dim)
    assert isinstance(block, SignBlock)
    return block


KINDS_OF_BLOCK = {"dense": dense, "dense-f32": dense_float32, "replayed": replayed, "tiles": tiles}
