"""A function that answers differently at the same point is refused where its noise would lead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import zotune
from zotune.errors import ObjectiveError
from zotune.noise import refuse_noise


def noisy(size: float) -> Callable[[Tensor], float]:
    draws = np.random.default_rng(0)
    return lambda x: float((x - 1).square().sum()) + size * draws.standard_normal()


def minimized(fn: Callable[[Tensor], float], **settings: Any) -> zotune.Run:
    return zotune.minimize(fn, x0=[0.0] * 10, q=10, budget=500, **settings)


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


def test_over_a_distance_at_which_the_function_changes_noise_does_not_matter() -> None:
    run = minimized(noisy(0.01), mu=0.3, difference="central")
    assert run.rows[-1]["loss"] < 0.1


@pytest.mark.parametrize("settings", [{}, {"L": 2.0}, {"difference": "central"}])
def test_rounding_is_not_taken_for_noise(settings: dict[str, Any]) -> None:
    run = minimized(noisy(1e-15), **settings)
    assert run.status == "exhausted"
    at_the_optimum = zotune.minimize(
        lambda x: 1e6 + float(x.square().sum()), x0=[0.0] * 10, q=2, budget=60, L=2.0
    )
    assert at_the_optimum.status == "exhausted"


def test_only_noise_of_the_size_of_what_is_looked_for_is_refused() -> None:
    one = torch.ones(3, dtype=torch.float64)
    refuse_noise(one, one + 0.01, one, "all")
    refuse_noise(1e6 * one, 1e6 * one + 1e-9, 1e-12 * one, "all")  # the last digits of a million
    with pytest.raises(ObjectiveError, match=r"got values 0\.2 apart, and all would be noise"):
        refuse_noise(one, one + torch.tensor([0.0, 0.0, 0.2]), one, "all")


def test_a_run_that_ends_above_its_start_says_so() -> None:
    run = minimized(noisy(0.0), eta=30.0, L=2.0)
    assert "above its start's 10, best" in repr(run)
    assert "above" not in repr(minimized(noisy(0.0), L=2.0))
