"""A function that answers differently at the same point is refused where its noise would lead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import zotune
from tests.instrument import minimize
from zotune.errors import ObjectiveError
from zotune.loop.noise import LOOKS, alike, refuse_noise


def noisy(size: float, seed: int = 0) -> Callable[[Tensor], float]:
    draws = np.random.default_rng(seed)
    return lambda x: float((x - 1).square().sum()) + size * draws.standard_normal()


def minimized(fn: Callable[[Tensor], float], **settings: Any) -> zotune.Run:
    return minimize(fn, x0=[0.0] * 10, q=10, budget=500, **settings)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({}, "its curvature would be noise"),
        ({"L": 2.0}, "differences over mu=1e-06 would be noise"),
        ({"L": 2.0, "difference": "central"}, "differences over mu=1e-06 would be noise"),
    ],
)
def test_noise_is_refused_before_it_is_followed(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(ObjectiveError, match=rf"{what}; give a mu .* with difference='central'"):
        minimized(noisy(0.01), **settings)


@pytest.mark.parametrize("settings", [{}, {"L": 2.0}, {"L": 2.0, "difference": "central"}])
@pytest.mark.parametrize("seed", range(20))
def test_noise_of_a_fifth_of_the_differences_is_refused_whatever_its_first_draws(
    seed: int, settings: dict[str, Any]
) -> None:
    with pytest.raises(ObjectiveError, match=r"got values .*e-0[67] apart, and .* would be noise"):
        minimized(noisy(1e-6, seed), **settings)


@pytest.mark.parametrize("settings", [{}, {"L": 2.0}, {"L": 2.0, "difference": "central"}])
@pytest.mark.parametrize("seed", range(5))
def test_noise_far_below_the_differences_is_let_through(
    seed: int, settings: dict[str, Any]
) -> None:
    assert minimized(noisy(1e-7, seed), **settings).status == "exhausted"


class Counted:
    def __init__(self, fn: Callable[[Tensor], float]) -> None:
        self.fn, self.calls = fn, 0

    def __call__(self, x: Tensor) -> float:
        self.calls += 1
        return self.fn(x)


@pytest.mark.parametrize("settings", [{}, {"L": 2.0}])
def test_only_a_function_that_has_shown_noise_is_looked_at_more_often(
    settings: dict[str, Any],
) -> None:
    calls = {}
    for size in (0.0, 1e-9):
        counted = Counted(noisy(size))
        run = minimized(counted, **settings)
        assert counted.calls == run.nfev
        calls[size] = run.chosen["repeats"].value
    assert calls == {0.0: "1", 1e-9: str(1 + LOOKS)}


def test_over_a_distance_at_which_the_function_changes_noise_does_not_matter() -> None:
    run = minimized(noisy(0.01), mu=0.3, difference="central")
    assert run.rows[-1]["loss"] < 0.1


@pytest.mark.parametrize("settings", [{}, {"L": 2.0}, {"difference": "central"}])
def test_rounding_is_not_taken_for_noise(settings: dict[str, Any]) -> None:
    run = minimized(noisy(1e-15), **settings)
    assert run.status == "exhausted"
    at_the_optimum = minimize(
        lambda x: 1e6 + float(x.square().sum()), x0=[0.0] * 10, q=2, budget=60, L=2.0
    )
    assert at_the_optimum.status == "exhausted"


def test_only_noise_of_the_size_of_what_is_looked_for_is_refused() -> None:
    one = torch.ones(3, dtype=torch.float64)
    apart = torch.tensor([0.0, 0.0, 0.2], dtype=torch.float64)
    refuse_noise(torch.stack([one, one + 0.01], -1), one, "all")
    last_digits = torch.stack([1e6 * one, 1e6 * one + 1e-9], -1)
    refuse_noise(last_digits, 1e-12 * one, "all")
    with pytest.raises(ObjectiveError, match=r"got values 0\.2 apart, and all would be noise"):
        refuse_noise(torch.stack([one, one + apart], -1), one, "all")


def test_last_digits_are_alike() -> None:
    million = torch.full((2,), 1e6, dtype=torch.float64)
    assert alike(million, million + 1e-9)
    assert not alike(million, million + torch.tensor([0.0, 1e-6], dtype=torch.float64))


def test_a_run_that_ends_above_its_start_says_so() -> None:
    run = minimized(noisy(0.0), eta=30.0, L=2.0)
    assert "above its start's 10, best" in repr(run)
    assert "above" not in repr(minimized(noisy(0.0), L=2.0))
