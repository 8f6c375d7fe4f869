"""Random numbers by address."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from zotune.addresses import (
    Generators,
    digest,
    extend,
    instance_generator,
    mix,
    permute,
    replicate_keys,
)

CPU = torch.device("cpu")


def draw(key: int, n: int = 32, *, step: int = 0, tile: int = 0) -> torch.Tensor:
    (generator,) = Generators(np.array([key], dtype=np.uint64), CPU).at(step, tile, 0)
    return torch.empty(n).normal_(generator=generator)


def test_a_key_draws_the_same_numbers_whatever_was_drawn_before() -> None:
    generators = Generators(np.array([1, 2, 1], dtype=np.uint64), CPU)
    first, second, again = (
        torch.empty(48).normal_(generator=generator) for generator in generators.at(0, 0, 0)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


@given(steps=st.lists(st.integers(-1, 100), min_size=2, max_size=5), tile=st.integers(0, 2))
def test_the_order_in_which_steps_are_drawn_does_not_matter(steps: list[int], tile: int) -> None:
    generators = Generators(np.array([7], dtype=np.uint64), CPU)
    for step in steps:
        (generator,) = generators.at(step, tile, 0)
        drawn = torch.empty(32).normal_(generator=generator)
        assert torch.equal(drawn, draw(7, step=step, tile=tile))


def test_keys_that_agree_in_32_bits_draw_different_numbers() -> None:
    assert not torch.equal(draw(5), draw(5 + 2**32))
    assert not torch.equal(draw(5), draw(5 + 2**63))


def test_a_million_addresses_have_a_million_keys() -> None:
    keys = replicate_keys("directions", 0, range(10))
    seen = np.concatenate([extend(keys, step, 0, 0) for step in range(100_000)])
    assert len(np.unique(seen)) == 1_000_000


def test_the_places_of_an_address_are_not_interchangeable() -> None:
    keys = replicate_keys("directions", 0, range(1))
    places = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1,), (1, 0), (-1, 0, 0)]
    assert len({int(extend(keys, *place)[0]) for place in places}) == len(places)


def test_seed_replicate_and_purpose_all_matter() -> None:
    keys = {
        int(replicate_keys(purpose, seed, [replicate])[0])
        for purpose in ("directions", "batches")
        for seed in (0, 1)
        for replicate in (0, 1)
    }
    assert len(keys) == 8


def test_one_integer_is_mixed_as_an_array_is() -> None:
    keys = np.array([7], dtype=np.uint64)
    by_hand = mix(keys + mix(np.array([0x9E3779B97F4A7C15 * 4 % 2**64], dtype=np.uint64)))
    assert np.array_equal(extend(keys, 3), by_hand)


def test_the_start_of_a_long_draw_is_a_short_draw() -> None:
    assert torch.equal(draw(9, 160)[:48], draw(9, 48))


def test_draws_are_standard_normal_and_uncorrelated_between_neighbouring_keys() -> None:
    draws = torch.stack([draw(key, 1024) for key in range(64)]).double()
    n = draws.numel()
    assert abs(draws.mean()) < 5 / n**0.5
    assert abs(draws.var() - 1) < 5 * (2 / n) ** 0.5
    gram = draws @ draws.mT / 1024 - torch.eye(64)
    assert gram.fill_diagonal_(0).abs().max() < 6 / 1024**0.5


def test_recorded_draws_have_not_changed() -> None:
    """These numbers are in every recorded run: changing them is changing all results."""
    assert digest("directions", 0, 0) == 0xE2680AA21F42DDA7
    assert draw(1, 16)[:3].tolist() == pytest.approx([-1.9611244, 0.7503266, 1.0691464], rel=1e-6)
    assert instance_generator("quadratic", 0).standard_normal() == pytest.approx(
        -1.7692124498715918
    )


@given(size=st.integers(1, 300), key=st.integers(0, 2**64 - 1))
def test_a_permutation_hits_every_place_once(size: int, key: int) -> None:
    keys = np.array([key, key ^ 1], dtype=np.uint64)
    places = permute(keys, np.arange(size, dtype=np.uint64), size)
    assert np.array_equal(np.sort(places, axis=1), np.tile(np.arange(size), (2, 1)))


@given(size=st.integers(1, 10**12), index=st.integers(0, 10**6))
def test_an_element_of_a_permutation_is_found_alone(size: int, index: int) -> None:
    index %= size
    keys = replicate_keys("rows", 0, range(2))
    few = np.arange(min(size, 5), dtype=np.uint64)
    alone = permute(keys, np.array([index], dtype=np.uint64), size)
    among = permute(keys, np.append(few, np.uint64(index)), size)
    assert np.array_equal(alone[:, 0], among[:, -1])


@pytest.mark.parametrize("size", [2, 5, 100])
def test_a_permutation_sends_an_element_everywhere_equally_often(size: int) -> None:
    n = 40_000
    keys = mix(np.arange(n, dtype=np.uint64))
    counts = np.bincount(permute(keys, np.array([0], dtype=np.uint64), size)[:, 0], minlength=size)
    chi_square = ((counts - n / size) ** 2 / (n / size)).sum()
    assert chi_square < size - 1 + 5 * (2 * (size - 1)) ** 0.5
