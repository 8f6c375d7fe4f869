"""Every registered kind of directions: one address, one direction."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from zotune.addresses import replicate_keys
from zotune.directions import DIRECTIONS, TILE, Directions, Sampler, register
from zotune.directions.gaussian import Gaussian
from zotune.errors import DuplicateNameError, UnknownNameError

CPU = torch.device("cpu")
ALL = {kind.name: kind for kind in DIRECTIONS.values()}
KINDS = pytest.mark.parametrize("kind", [pytest.param(k, id=k.name) for k in ALL.values()])


def sampler(kind: Directions, dim: int, replicates: range = range(3), seed: int = 0) -> Sampler:
    return kind.sampler(dim, replicate_keys("directions", seed, replicates), CPU)


def block(
    kind: Directions, dim: int, q: int, step: int = 0, replicates: range = range(3)
) -> Tensor:
    out = torch.full((len(replicates), q, dim), torch.nan, dtype=torch.float64)
    sampler(kind, dim, replicates).fill(out, step, range(q), range(dim))
    return out


@KINDS
@given(data=st.data())
def test_a_direction_is_the_same_in_every_part_of_its_block(
    kind: Directions, data: st.DataObject
) -> None:
    dim, q = 300, 70
    whole = block(kind, dim, q)
    first = data.draw(st.integers(0, q - 1))
    queries = range(first, data.draw(st.integers(first + 1, q)))
    left = data.draw(st.integers(0, dim - 1))
    coordinates = range(left, data.draw(st.integers(left + 1, dim)))
    part = torch.empty(3, len(queries), len(coordinates), dtype=torch.float64)
    sampler(kind, dim).fill(part, 0, queries, coordinates)
    expected = whole[:, queries.start : queries.stop, coordinates.start : coordinates.stop]
    assert torch.equal(part, expected)


@KINDS
def test_a_direction_longer_than_a_tile_is_the_same_in_parts(kind: Directions) -> None:
    dim = 2 * TILE + 100
    whole = block(kind, dim, 2, replicates=range(2))
    source = sampler(kind, dim, range(2))
    for coordinates in (range(10), range(TILE - 5, TILE + 5), range(2 * TILE, dim)):
        part = torch.empty(2, 1, len(coordinates), dtype=torch.float64)
        source.fill(part, 0, range(1, 2), coordinates)
        assert torch.equal(part, whole[:, 1:2, coordinates.start : coordinates.stop])


@KINDS
def test_what_a_sampler_has_drawn_before_changes_nothing(kind: Directions) -> None:
    """Steps to and fro, other sizes, and the step before the first, where curvature is probed."""
    source = sampler(kind, 50)
    for step, q in ((-1, 1), (0, 2), (1, 1), (9, 1), (8, 1), (0, 3), (-1, 2), (7, 2)):
        drawn = torch.empty(3, q, 50, dtype=torch.float64)
        narrow = drawn.float()
        for out in (drawn, narrow):
            source.fill(out, step, range(q), range(50))
        expected = block(kind, 50, q, step)
        assert torch.equal(drawn, expected)
        assert torch.allclose(narrow.double(), expected, rtol=1e-6, atol=1e-6)


@KINDS
@pytest.mark.parametrize(("dim", "q"), [(50, 1), (50, 7), (1000, 90), (TILE + 9, 3)])
def test_a_place_that_was_announced_is_filled_like_any_other(
    kind: Directions, dim: int, q: int
) -> None:
    source = sampler(kind, dim)
    place, other = torch.empty(3, q, dim, dtype=torch.float64), torch.empty(3, 2, 5).double()
    source.expect(place)
    for step in (0, 1, 8, 0):
        source.fill(other, step, range(min(q, 1), min(q, 1) + 2), range(3, 8))
        source.fill(place, step, range(q), range(dim))
        assert torch.equal(place, block(kind, dim, q, step))
    if not kind.orthogonal or 2 * q <= dim:
        source.fill(place, 0, range(q, 2 * q), range(dim))
        assert torch.equal(place, block(kind, dim, 2 * q)[:, q:])


@KINDS
def test_a_direction_does_not_depend_on_the_size_of_its_block(kind: Directions) -> None:
    assert torch.equal(block(kind, 50, 7), block(kind, 50, 40)[:, :7])


@KINDS
def test_a_replicate_draws_alone_what_it_draws_among_others(kind: Directions) -> None:
    assert torch.equal(block(kind, 50, 7)[2:], block(kind, 50, 7, replicates=range(2, 3)))


@KINDS
def test_replicates_steps_and_queries_differ(kind: Directions) -> None:
    here, there = block(kind, 50, 7, step=0), block(kind, 50, 7, step=1)
    assert all(len(torch.unique(rows, dim=0)) == 7 for rows in here)
    assert not torch.equal(here[0], here[1])
    assert not torch.equal(here, there)


@KINDS
def test_the_first_directions_of_successive_steps_are_new_each_time(kind: Directions) -> None:
    """They share a tile with those of other steps; few coordinates come twice by chance."""
    firsts = torch.cat([block(kind, 50, 1, step=t, replicates=range(1))[0] for t in range(24)])
    assert len(torch.unique(firsts, dim=0)) >= 15


def drawn() -> dict[str, str]:
    """A digest of what each distribution draws at one address."""
    blocks = {name: block(kind, 1000, 3, step=7) for name, kind in ALL.items()}
    return {n: hashlib.sha256(b.numpy().tobytes()).hexdigest() for n, b in blocks.items()}


def test_another_process_draws_the_same() -> None:
    program = (
        "import sys; sys.path.insert(0, 'tests/directions')\n"
        "from test_directions import drawn\n"
        "print(drawn())"
    )
    there = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == str(drawn())


@KINDS
def test_norms_are_the_root_of_d(kind: Directions) -> None:
    square = block(kind, 1000, 200).square().sum(-1) / 1000
    if kind.random_norm:
        error = (2 / 1000 / square.numel()) ** 0.5
        assert abs(square.mean() - 1) < 5 * error
        assert square.std() > 0.01
    else:
        assert torch.allclose(square, torch.ones_like(square), rtol=1e-12)


@KINDS
def test_the_mean_of_uu_is_the_identity(kind: Directions) -> None:
    dim, n = 6, 3000
    u = block(kind, dim, 5, replicates=range(n)).flatten(0, 1)
    products = torch.einsum("ni,nj->nij", u, u)
    error = products.std(0) / n**0.5
    deviation = (products.mean(0) - torch.eye(dim)).abs()
    assert bool((deviation <= 5 * error + 1e-12).all())


@KINDS
@pytest.mark.parametrize("dim", [1, 2, 7, 64, 1000])
def test_orthogonal_kinds_have_an_exact_gram_matrix(kind: Directions, dim: int) -> None:
    u = block(kind, dim, dim)
    gram = u @ u.mT / dim
    is_identity = torch.allclose(gram, torch.eye(dim, dtype=gram.dtype).expand_as(gram), atol=1e-12)
    assert is_identity == (kind.orthogonal or (dim == 1 and not kind.random_norm))


@KINDS
def test_float32_holds_the_same_directions(kind: Directions) -> None:
    narrow = torch.empty(3, 4, 100)
    sampler(kind, 100).fill(narrow, 0, range(4), range(100))
    assert torch.allclose(narrow.double(), block(kind, 100, 4), rtol=1e-6, atol=1e-6)


def test_a_block_of_coordinates_in_a_billion_dimensions_is_found_at_once() -> None:
    dim = 10**9
    source = sampler(DIRECTIONS["coordinate"], dim, range(1))
    part = torch.empty(1, 3, 10, dtype=torch.float64)
    source.fill(part, 0, range(3), range(10))
    assert part.abs().sum() == 0


def test_random_signs_use_every_bit() -> None:
    signs = block(DIRECTIONS["rademacher"], 64, 500)
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert signs.mean((0, 1)).abs().max() < 5 / 1500**0.5


def test_a_users_own_kind_is_registered_once() -> None:
    name = "test-doubled"

    @register(name, random_norm=True)
    class Doubled(Gaussian):
        """Twice as long."""

        def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
            super().fill(out, step, queries, coordinates)
            out *= 2

    assert DIRECTIONS[name].summary == "Twice as long."
    twice, once = block(DIRECTIONS[name], 9, 2), block(DIRECTIONS["gaussian"], 9, 2)
    assert torch.equal(twice, 2 * once)
    with pytest.raises(DuplicateNameError, match=f"directions '{name}' is registered already"):
        register(name)(Doubled)


def test_an_unknown_kind_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"directions 'gausian' is not known \(did you mean"):
        DIRECTIONS["gausian"]
