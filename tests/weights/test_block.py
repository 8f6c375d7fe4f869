"""Directions for weights: replayed, kept and packed, they are the rows that a sampler fills."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from zotune.addresses import replicate_keys
from zotune.blocks import DenseBlock, ReplayedBlock
from zotune.directions import DIRECTIONS, TILE
from zotune.estimators import ESTIMATORS
from zotune.weights.block import BlockCache, SignBlock, TileBlock

CPU = torch.device("cpu")
DIM, Q, STEP = 2 * TILE + 1003, 6, 5
ROOMS = pytest.mark.parametrize("may_keep", [0, Q * TILE // 8, 4 * Q * TILE, 2**30])
"""For none of three tiles, for one as bits, for one as floats, for all."""
KINDS = pytest.mark.parametrize("kind", sorted(DIRECTIONS))


KEYS = replicate_keys("directions", 3, [0])


def made(kind: str, may_keep: int, *, most: int = DIM) -> TileBlock:
    """A block in R^DIM, of a cache that has room for more."""
    cache = BlockCache(DIRECTIONS[kind], KEYS, CPU, dim=most, q=Q, may_keep=may_keep)
    return cache.block(STEP, Q, DIM)


def dense(kind: str) -> Tensor:
    sampler = DIRECTIONS[kind].sampler(DIM, KEYS, CPU)
    rows = torch.empty(1, Q, DIM)
    sampler.fill(rows, STEP, range(Q), range(DIM))
    return rows


def tiles(block: TileBlock) -> list[range]:
    return [range(at, min(at + block.width, DIM)) for at in range(0, DIM, block.width)]


@KINDS
@ROOMS
@pytest.mark.parametrize("most", [DIM, 5 * TILE])
def test_looks_show_the_directions_again_and_again(kind: str, may_keep: int, most: int) -> None:
    block, rows = made(kind, may_keep, most=most), dense(kind)[0]
    for tile in [*tiles(block), *tiles(block)]:
        part = rows[:, tile.start : tile.stop]
        assert torch.equal(block.look(range(2, 4), tile), part[2:4])
        assert torch.equal(block.look(range(Q), tile, keep=False), part)


@KINDS
@ROOMS
def test_the_gram_matrix_is_the_dense_one(kind: str, may_keep: int) -> None:
    block, rows = made(kind, may_keep), dense(kind).double()
    expected = rows @ rows.mT
    assert torch.allclose(block.gram() / DIM, expected / DIM, rtol=0, atol=1e-6)
    assert torch.allclose(block.diagonal().double(), expected.diagonal(dim1=1, dim2=2), rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "may_keep", "kept"),
    [
        ("gaussian", 4 * Q * TILE - 1, 0),
        ("gaussian", 4 * Q * TILE, 1),
        ("gaussian", 12 * Q * TILE, 3),
        ("rademacher", Q * TILE // 8 - 1, 0),
        ("rademacher", Q * TILE // 4, 2),
    ],
)
def test_the_last_tiles_that_fit_are_drawn_once_and_the_others_at_every_look(
    kind: str, may_keep: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = made(kind, may_keep)
    drawn: list[int] = []
    name = "words" if kind == "rademacher" else "fill"
    draw = getattr(block._sampler, name)

    def spy(*args: object) -> object:
        drawn.append(args[2] if name == "words" else args[3].start // TILE)  # type: ignore
        return draw(*args)

    monkeypatch.setattr(block._sampler, name, spy)
    for _ in range(2):
        for tile in tiles(block):
            block.look(range(1), tile)
    assert sorted(drawn) == sorted([*range(3), *range(3 - kept)])


@KINDS
@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_coefficients_are_those_of_a_dense_block(kind: str, estimator: str) -> None:
    v = torch.linspace(-1, 2, Q, dtype=torch.float64)[None]
    orthogonal = DIRECTIONS[kind].orthogonal
    expected = ESTIMATORS[estimator](v, DenseBlock(dense(kind).double(), orthogonal=orthogonal))
    found = ESTIMATORS[estimator](v, made(kind, 0))
    assert torch.allclose(found, expected, rtol=1e-5)


def test_signs_are_packed_and_their_gram_matrix_is_exact() -> None:
    block, rows = made("rademacher", 2**30), dense("rademacher").double()
    assert isinstance(block, SignBlock)
    assert torch.equal(block.gram(), rows @ rows.mT)


def test_a_million_float32_dimensions_do_not_drop_directions() -> None:
    """A tolerance that grew like d would find every direction dependent on the others."""
    dim = 2**20
    sampler = DIRECTIONS["gaussian"].sampler(dim, replicate_keys("directions", 0, [0]), CPU)
    replayed = ReplayedBlock(sampler, 0, 2, dtype=torch.float32, max_bytes=2**20)
    rows = replayed.rows(range(2), range(dim))
    v = torch.ones(1, 2)
    for block in (replayed, DenseBlock(rows)):
        estimate = block.combine(block.solve(v))
        assert torch.allclose((rows @ estimate[..., None])[..., 0], v, rtol=1e-3)


@pytest.mark.parametrize("dim", [TILE // 2 + 1, TILE - 63, 40_001])
def test_signs_of_less_than_a_tile_are_packed_to_the_last(dim: int) -> None:
    cache = BlockCache(DIRECTIONS["rademacher"], KEYS, CPU, dim=dim, q=2, may_keep=2**20)
    block = cache.block(STEP, 2, dim)
    assert isinstance(block, SignBlock)
    rows = block.look(range(2), range(dim)).double()
    assert torch.equal(block.gram()[0], rows @ rows.mT)
