"""Dense and replayed blocks give the same answers."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from zotune.addresses import replicate_keys
from zotune.blocks import DenseBlock, ReplayedBlock, _solve_any
from zotune.directions import DIRECTIONS, TILE, Directions

KINDS = pytest.mark.parametrize("kind", [pytest.param(k, id=k.name) for k in DIRECTIONS.values()])


def pair(
    kind: Directions,
    dim: int,
    q: int,
    *,
    max_bytes: int,
    replicates: int = 2,
    dtype: torch.dtype = torch.float64,
) -> tuple[DenseBlock, ReplayedBlock]:
    """One block twice: in memory, and replayed within so many bytes."""
    keys = replicate_keys("directions", 0, range(replicates))
    source = kind.sampler(dim, keys, torch.device("cpu"))
    rows = torch.empty(replicates, q, dim, dtype=dtype)
    source.fill(rows, 3, range(q), range(dim))
    replayed = ReplayedBlock(
        source, 3, q, dtype=dtype, max_bytes=max_bytes, orthogonal=kind.orthogonal
    )
    return DenseBlock(rows, orthogonal=kind.orthogonal), replayed


def same(a: Tensor, b: Tensor, rtol: float = 1e-10) -> bool:
    return bool((a - b).norm() <= rtol * b.norm())


@KINDS
@pytest.mark.parametrize("max_bytes", [1, 5_000, 10**9])
def test_dense_equals_replayed(kind: Directions, max_bytes: int) -> None:
    dense, replayed = pair(kind, 60, 12, max_bytes=max_bytes)
    v = torch.randn(2, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    everything = (range(12), range(60))
    assert torch.equal(dense.rows(*everything), replayed.rows(*everything))
    assert same(replayed.gram(), dense.gram())
    assert same(replayed.diagonal(), dense.diagonal())
    assert same(replayed.combine(v), dense.combine(v))
    assert same(replayed.solve(v), dense.solve(v), rtol=1e-8)


@KINDS
def test_dense_equals_replayed_over_several_tiles(kind: Directions) -> None:
    dim = TILE + 1000
    dense, replayed = pair(kind, dim, 3, max_bytes=8 * TILE)
    v = torch.ones(2, 3, dtype=torch.float64)
    assert same(replayed.gram(), dense.gram())
    assert same(replayed.combine(replayed.solve(v)), dense.combine(dense.solve(v)))


def test_a_replayed_block_never_holds_all_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    _, replayed = pair(DIRECTIONS["gaussian"], 10_000, 8, max_bytes=100_000, replicates=1)
    sizes = []
    fill = replayed._sampler.fill

    def spy(out: Tensor, *args: object) -> None:
        sizes.append(out.nbytes)
        fill(out, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(replayed._sampler, "fill", spy)
    replayed.gram()
    replayed.combine(torch.ones(1, 8, dtype=torch.float64))
    replayed.diagonal()
    assert max(sizes) <= 100_000
    assert sum(sizes) >= 3 * 8 * 10_000 * 8


def test_align_recovers_the_gradient_at_q_equal_to_d() -> None:
    """No squared condition: a square Gaussian block has condition about d."""
    d = 1000
    dense, _ = pair(DIRECTIONS["gaussian"], d, d, max_bytes=1)
    g = torch.randn(2, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    v = torch.einsum("rqd,rd->rq", dense.rows(range(d), range(d)), g)
    assert same(dense.combine(dense.solve(v)), g, rtol=1e-6)


@pytest.mark.parametrize("q", [2, 15, 16, 17, 29, 30])
def test_every_way_of_solving_agrees_with_the_factors_of_u(q: int) -> None:
    """Half of the dimensions at most, between, and all: Cholesky, QR and LU."""
    dense, _ = pair(DIRECTIONS["gaussian"], 30, q, max_bytes=1)
    rows = dense.rows(range(q), range(30))
    v = torch.randn(2, q, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    expected = torch.linalg.lstsq(rows, v[..., None]).solution[..., 0]
    assert same(dense.combine(dense.solve(v)), expected, rtol=1e-9)


@pytest.mark.parametrize("q", [10, 40])
def test_nearly_dependent_directions_keep_their_digits(q: int) -> None:
    """Through UᵀU, whose condition is above 1e12 here, four digits would be left at best."""
    generator = torch.Generator().manual_seed(4)
    rows = torch.randn(3, q, 40, dtype=torch.float64, generator=generator)
    nudge = torch.randn(40, dtype=torch.float64, generator=generator)
    rows[1, -1] = rows[1, 0] + 1e-6 * nudge
    g = torch.randn(3, 40, dtype=torch.float64, generator=generator)
    v = torch.einsum("rqd,rd->rq", rows, g)
    c = DenseBlock(rows).solve(v)
    expected = torch.linalg.lstsq(rows, v[..., None]).solution[..., 0]
    assert same(DenseBlock(rows).combine(c), expected, rtol=1e-7)
    for at in range(3):
        assert torch.equal(c[at], DenseBlock(rows[at : at + 1]).solve(v[at : at + 1])[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("q", "d"), [(201, 500), (333, 700), (333, 333), (600, 700)])
def test_a_replicate_is_solved_alone_as_among_others(q: int, d: int, dtype: torch.dtype) -> None:
    dense, _ = pair(DIRECTIONS["gaussian"], d, q, max_bytes=1, replicates=3, dtype=dtype)
    rows = dense.rows(range(q), range(d))
    v = torch.randn(3, q, dtype=dtype, generator=torch.Generator().manual_seed(5))
    c = dense.solve(v)
    for at in range(3):
        assert torch.equal(c[at], DenseBlock(rows[at : at + 1]).solve(v[at : at + 1])[0])


@pytest.mark.parametrize("distance", [1e-3, 1e-4, 1e-5, 0.0])
def test_a_square_block_in_float32_is_no_worse_than_by_its_qr(distance: float) -> None:
    """Noise in v is magnified by a block that is singular but for rounding, unless it is cut."""
    generator = torch.Generator().manual_seed(6)
    rows = torch.randn(60, 64, 64, generator=generator)
    mixed = torch.randn(60, 1, 63, generator=generator) @ rows[:, :63] / 8
    rows[:, 63:] = mixed + distance * torch.randn(60, 1, 64, generator=generator)
    g = torch.randn(60, 64, generator=generator)
    v = torch.einsum("rqd,rd->rq", rows, g) + 1e-4 * torch.randn(60, 64, generator=generator)

    def worst(c: Tensor) -> float:
        return float(((DenseBlock(rows).combine(c) - g).norm(dim=-1) / g.norm(dim=-1)).max())

    assert worst(DenseBlock(rows).solve(v)) <= 1.1 * worst(_solve_any(rows, v))


@given(data=st.data())
def test_dependent_directions_give_the_projection_on_their_span(data: st.DataObject) -> None:
    d, rank, q = 12, data.draw(st.integers(1, 6)), data.draw(st.integers(6, 12))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    basis = torch.randn(2, rank, d, dtype=torch.float64, generator=generator)
    mixing = torch.randint(-2, 3, (2, q, rank), generator=generator).double()
    rows = mixing @ basis
    g = torch.randn(2, d, dtype=torch.float64, generator=generator)
    estimate = _align(rows, g)
    u, s, _ = torch.linalg.svd(rows.mT, full_matrices=False)
    span = u * (s > 1e-9 * s.max())[:, None]
    projection = (span @ (span.mT @ g[..., None]))[..., 0]
    assert torch.allclose(estimate, projection, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("q", "d"), [(3, 8), (5, 5), (7, 5), (12, 20), (50, 70), (60, 33)])
def test_dependent_directions_are_given_the_shortest_least_squares_coefficients(
    q: int, d: int, dtype: torch.dtype
) -> None:
    """Noise in v, which no vector agrees with, included; each replicate alone as among others."""
    generator = torch.Generator().manual_seed(7)
    rows = torch.randint(0, 2, (6, q, d), generator=generator).to(dtype) * 2 - 1
    rows[:, 1] = -rows[:, 0]
    v = torch.randn(6, q, dtype=dtype, generator=generator)
    c = DenseBlock(rows).solve(v)
    gram = rows.double() @ rows.double().mT
    expected = torch.linalg.pinv(gram, rtol=1e-9, hermitian=True) @ v.double()[..., None]
    assert same(c.double(), expected[..., 0], rtol=1e3 * torch.finfo(dtype).eps)
    for at in range(6):
        assert torch.equal(c[at], DenseBlock(rows[at : at + 1]).solve(v[at : at + 1])[0])


@pytest.mark.parametrize("q", [3, 4])
def test_every_block_of_signs_in_four_dimensions_gives_the_projection(q: int) -> None:
    """After a dependent direction the diagonal of an unpivoted R is rounding, and says nothing."""
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=4)), dtype=torch.float64)
    which = torch.tensor(list(itertools.combinations_with_replacement(range(16), q)))
    rows = signs[torch.cat([which, which.flip(1)])]
    g = torch.linspace(-1, 2, 4, dtype=torch.float64).expand(len(rows), 4)
    projection = torch.linalg.pinv(rows, rtol=1e-9) @ rows @ g[..., None]
    assert torch.allclose(_align(rows, g), projection[..., 0], rtol=0, atol=1e-12)


def _align(rows: Tensor, g: Tensor) -> Tensor:
    block = DenseBlock(rows)
    return block.combine(block.solve(torch.einsum("rqd,rd->rq", rows, g)))


def test_a_repeated_direction_of_one_replicate_leaves_the_others_alone() -> None:
    rows = torch.randn(3, 4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    g = torch.ones(3, 9, dtype=torch.float64)
    undisturbed = _align(rows, g)
    rows[1, 3] = -2 * rows[1, 0]
    disturbed = _align(rows, g)
    assert torch.allclose(disturbed[[0, 2]], undisturbed[[0, 2]], rtol=1e-12)
    assert torch.allclose(disturbed[1], _align(rows[1:2, :3], g[1:2])[0], rtol=1e-10)


def test_dependent_directions_of_a_replayed_block_give_the_projection_too() -> None:
    dense, replayed = pair(DIRECTIONS["rademacher"], 3, 3, max_bytes=1, replicates=40)
    rank = torch.linalg.matrix_rank(dense.rows(range(3), range(3)))
    assert set(rank.tolist()) > {2, 3}
    g = torch.arange(120, dtype=torch.float64).view(40, 3)
    v = torch.einsum("rqd,rd->rq", dense.rows(range(3), range(3)), g)
    assert same(replayed.combine(replayed.solve(v)), dense.combine(dense.solve(v)))


def test_directions_of_zero_length_carry_no_weight() -> None:
    block = DenseBlock(torch.zeros(1, 2, 5, dtype=torch.float64))
    assert block.solve(torch.zeros(1, 2, dtype=torch.float64)).tolist() == [[0, 0]]
