"""Updates: small ones arrive in few digits; schedules, clipping and momentum do what they say."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import nn

from tests.instrument import parse_config
from tests.weights.models import TinyQwen, bits, block_of
from tests.weights.toy import Toy, settings
from zotune.addresses import replicate_keys
from zotune.errors import ConfigError
from zotune.loop import Loop
from zotune.steps import schedule_factor
from zotune.weights.layout import Layout, Piece
from zotune.weights.rounding import LEVELS, Rounder, round_randomly

HALF = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


def finished(objective: Any, **changes: Any) -> Loop:
    loop = Loop(parse_config(settings(**changes)), objective)
    loop.advance(loop.init())
    return loop


@HALF
def test_small_updates_arrive_in_the_mean(dtype: torch.dtype) -> None:
    weights = torch.linspace(-2, 2, 4096).to(dtype)
    start = weights.clone()
    change = torch.full((4096,), 1e-5)
    assert torch.equal((start.float() - change).to(dtype)[:100], start[:100])
    rounder = Rounder(replicate_keys("rounding", 0, [0]), dtype, torch.device("cpu"), 4096)
    for step in range(200):
        rounder.begin(step, 0)
        rounder.subtract(weights, change, slice(0, 4096))
    moved = (start.double() - weights.double()).mean()
    assert abs(moved - 200e-5) < 0.1 * 200e-5


def rounder_of(dtype: torch.dtype, width: int) -> Rounder:
    return Rounder(replicate_keys("rounding", 0, [0]), dtype, torch.device("cpu"), width)


def moved_at(level: torch.Tensor, start: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    """The weights after a change where each draws this level of the random numbers."""
    rounder, weights = rounder_of(start.dtype, len(start)), start.clone()
    rounder._uniform[: len(start)] = (level + 0.5) / LEVELS
    rounder.subtract(weights, change, slice(0, len(start)))
    return weights.double()


def updates(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights of every size, powers of two among them; changes from far below a gap to above."""
    generator = torch.Generator().manual_seed(0)
    sizes = 2.0 ** torch.arange(-30, 12).repeat(20)
    powers = 2.0 ** torch.arange(-24, 15)
    weights = torch.cat([torch.randn(840, generator=generator) * sizes, powers, -powers])
    weights = torch.cat([weights, torch.zeros(10)]).to(dtype)
    shares = 10.0 ** (torch.rand(len(weights), generator=generator) * 12 - 11)
    signs = torch.randint(0, 2, (len(weights),), generator=generator) * 2 - 1
    return weights, signs * shares * weights.float().abs().clamp(min=2.0**-20)


@HALF
def test_an_update_is_exact_in_the_mean_to_a_small_part_of_the_gap(dtype: torch.dtype) -> None:
    """Over all random numbers: those above a threshold, found by bisection, round up."""
    start, change = updates(dtype)
    low, high = torch.zeros(len(start)).double(), torch.full((len(start),), float(LEVELS)).double()
    down, up = moved_at(low, start, change), moved_at(high - 1, start, change)
    while bool((high - low > 1).any()):
        middle = ((low + high) / 2).floor()
        goes_up = moved_at(middle, start, change) > down
        low, high = torch.where(goes_up, low, middle), torch.where(goes_up, middle, high)
    first_up = torch.where(moved_at(low, start, change) > down, low, high)
    assert float((up > down).double().mean()) > 0.9
    around_zero = Fraction(torch.ones((), dtype=torch.int16).view(dtype).item())
    for i, at in enumerate(first_up.tolist()):
        gap = Fraction(up[i].item()) - Fraction(down[i].item())
        mean = Fraction(down[i].item()) + gap * (1 - Fraction(at) / LEVELS)
        wanted = Fraction(start[i].item()) - Fraction(change[i].item())
        least = max(around_zero, Fraction(torch.finfo(dtype).eps) * abs(wanted) / 2)
        assert abs(mean - wanted) <= (gap or least) / 2**24


@HALF
def test_random_numbers_have_as_many_levels_as_stated_all_alike(dtype: torch.dtype) -> None:
    rounder = rounder_of(dtype, 2**16)
    rounder.begin(0, 0)
    levels = rounder._uniform * LEVELS - 0.5
    assert torch.equal(levels, levels.round())
    assert 0 <= float(levels.min()) < float(levels.max()) < LEVELS
    bits = (levels.long()[:, None] >> torch.arange(31)) & 1
    assert float((bits.double().mean(0) - 0.5).abs().max()) < 5 * 0.5 / 2**8


@HALF
def test_what_is_not_finite_stays_so_and_what_is_too_large_becomes_infinite(
    dtype: torch.dtype,
) -> None:
    largest = torch.finfo(dtype).max
    past = 2.0 ** round(math.log2(largest))
    wanted = torch.tensor(
        [math.inf, -math.inf, math.nan, past, -past, largest], dtype=torch.float64
    )
    expected = torch.tensor([math.inf, -math.inf, math.nan, math.inf, -math.inf, largest])
    for uniform in (0.0, 1 - 2.0**-32):
        rounded = round_randomly(wanted, torch.full_like(wanted, uniform), dtype)
        assert torch.equal(rounded.float().nan_to_num(0.5), expected.nan_to_num(0.5))
    between = torch.full((2,), (largest + past) / 2, dtype=torch.float64)
    rounded = round_randomly(between, torch.tensor([0.4, 0.6], dtype=torch.float64), dtype)
    assert rounded.tolist() == [largest, math.inf]


@HALF
def test_rounding_keeps_what_the_dtype_holds_and_takes_a_neighbour_of_the_rest(
    dtype: torch.dtype,
) -> None:
    generator = torch.Generator().manual_seed(0)
    held = torch.arange(1, 2**15 - 1, dtype=torch.int16).view(dtype)
    held = held[held.isfinite()]
    uniform = torch.randint(0, LEVELS, held.shape, generator=generator).double().add(0.5) / LEVELS
    for side in (held, -held):
        assert torch.equal(round_randomly(side.double(), uniform, dtype), side)
        between = side.double() * (1 + 2.0**-12)
        apart = round_randomly(between, uniform, dtype).view(torch.int16) - side.view(torch.int16)
        assert set(apart.tolist()) == {0, 1}


@HALF
def test_the_share_that_nothing_moves_is_told(dtype: torch.dtype) -> None:
    coarse = Loop(parse_config(settings(mu=1e-7, eta=1e-12)), TinyQwen(dtype))
    _, row = coarse.report(coarse.step(coarse.init()))
    assert row["unmoved"] > 0.9
    fine = Loop(parse_config(settings()), TinyQwen(dtype))
    _, row = fine.report(fine.step(fine.init()))
    assert row["unmoved"] < 0.1


def test_a_radius_that_moves_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="mu must move the weights"):
        Loop(parse_config(settings(mu=1e-12)), Toy(torch.bfloat16))


def test_schedules_shrink_the_factors_with_spent_budget() -> None:
    level = finished(Toy(), eta=1e-9).iterate.log
    for name in ("linear", "cosine"):
        log = finished(Toy(), eta=1e-9, schedule=name, warmup=0.2).iterate.log
        shares = [step[0] / plain[0] for step, plain in zip(log, level, strict=True)]
        expected = [schedule_factor(name, 0.2, 3 * t / 30, 3 * (t + 1) / 30) for t in range(10)]
        assert shares == pytest.approx(expected, rel=5e-2, abs=1e-9)
        assert max(shares) == pytest.approx(1, rel=1e-2)


def test_warmup_spends_no_block_on_a_step_of_size_0() -> None:
    log = finished(Toy(), eta=1e-3, warmup=0.5).iterate.log
    assert all(any(step) for step in log)


def test_clipping_bounds_what_a_step_believes() -> None:
    free, bound = (
        finished(Toy(), eta=1.0, budget=3).iterate.log,
        finished(Toy(), eta=1.0, budget=3, clip=1.0).iterate.log,
    )
    assert max(map(abs, free[0])) > 1 / 3
    assert bound[0] == pytest.approx([max(-1 / 3, min(1 / 3, a)) for a in free[0]])


def test_momentum_makes_the_last_update_again() -> None:
    start, still = bits(Toy()), Toy()
    loop = finished(still, momentum=0.5, budget=6, eta=1e-3)
    assert [len(a) for a in loop.iterate.log] == [3, 3]
    first, second = (_update(loop, step) for step in range(2))
    moved = torch.frombuffer(bytearray(start), dtype=torch.float32) - (1.5 * first + second)
    assert torch.allclose(moved, torch.frombuffer(bytearray(bits(still)), dtype=torch.float32))


def _update(loop: Loop, step: int) -> torch.Tensor:
    rows = block_of(loop, step, 3, loop.iterate.layout).look(range(3), loop.iterate.layout.tiles[0])
    return torch.tensor(loop.iterate.log[step]) @ rows


TRAINED = {
    "a": nn.Parameter(torch.zeros(7, 5)),
    "b": nn.Parameter(torch.zeros(3)),
    "c": nn.Parameter(torch.zeros(())),
}
ROWS_OF_A = {"a": torch.tensor([0, 3, 4])}


def covered(layout: Layout, pieces: list[list[Piece]]) -> list[tuple[str, int, int]]:
    """Parameter, place in it and place in the vector of every coordinate."""
    return [
        (p.name, inside, at)
        for tile, of_tile in zip(layout.tiles, pieces, strict=True)
        for p in of_tile
        for inside, at in zip(range(35)[p.inside], tile[p.of_tile], strict=True)
    ]


def test_a_layout_covers_every_weight_once_and_finds_rows() -> None:
    layout = Layout.of_all(TRAINED, 16)
    whole = [("a", k, k) for k in range(35)] + [("b", k, 35 + k) for k in range(3)] + [("c", 0, 38)]
    assert covered(layout, layout.pieces) == whole
    seen = covered(layout, layout.within(ROWS_OF_A))
    hidden = {*range(5, 15), *range(25, 35)}
    assert sorted(seen) == [(n, k, at) for n, k, at in whole if at not in hidden]


def test_a_layout_of_what_is_seen_has_nothing_else_and_no_gaps() -> None:
    layout = Layout.of_all(TRAINED, 16)
    seen = layout.seen(ROWS_OF_A)
    names = [("b", 0), ("b", 1), ("b", 2), ("c", 0)]
    names += [("a", k) for k in (*range(5), *range(15, 25))]
    assert covered(seen, seen.pieces) == [(n, k, at) for at, (n, k) in enumerate(names)]
    assert (seen.dim, seen.is_whole, layout.is_whole) == (19, False, True)
    assert layout.seen({}) is layout
    partly = [(n, k) for _, (n, inside, _) in seen.of("a", 4, 17) for k in range(35)[inside]]
    assert partly == [("a", 4), ("a", 15), ("a", 16)]


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_rows_of_an_embedding_that_no_batch_has_seen_stay_as_they_are(momentum: float) -> None:
    before, objective = TinyQwen(), TinyQwen()
    loop = finished(objective, momentum=momentum, budget=6)
    tokens = [objective.batch(loop.iterate.batch_keys, step)[0].unique() for step in range(2)]
    name = "model.embed_tokens.weight"
    moved = (objective.trained[name] != before.trained[name]).any(1).nonzero()[:, 0]
    assert moved.tolist() == torch.cat(tokens).unique().tolist()
    everywhere = TinyQwen()
    finished(everywhere, momentum=momentum, budget=6, embedding_rows="all")
    assert bool((everywhere.trained[name] != before.trained[name]).any(1).all())


def test_momentum_moves_no_row_that_the_batch_does_not_see() -> None:
    objective, name = TinyQwen(), "model.embed_tokens.weight"
    loop = Loop(parse_config(settings(momentum=0.5, budget=6)), objective)
    state = loop.step(loop.init())
    first = objective.trained[name].clone()
    loop.step(state)
    tokens = [
        set(objective.batch(loop.iterate.batch_keys, step)[0].flatten().tolist()) for step in (0, 1)
    ]
    once = sorted(tokens[0] - tokens[1])
    assert len(once) > 5
    assert torch.equal(objective.trained[name][once], first[once])
    seen = sorted(tokens[1])
    assert bool((objective.trained[name][seen] != first[seen]).any(1).all())
