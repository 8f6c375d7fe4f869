"""A function of the user's, wrapped."""

from __future__ import annotations

import pytest
import torch

import zotune
from tests.instrument import minimize
from zotune.errors import ConfigError


def test_a_start_of_its_own_is_where_runs_begin() -> None:
    bowl = zotune.objective(lambda x: x.square().sum(), dim=3, L=2.0, start=[1.0, 2.0, 3.0])
    run = minimize(bowl, budget=6, q=3)
    assert run.rows[0]["loss"] == 14
    assert minimize(bowl, x0=[1.0, 0.0, 0.0], budget=6, q=3).rows[0]["loss"] == 1


def test_without_a_start_runs_begin_at_zero() -> None:
    bowl = zotune.objective(lambda x: (x - 1).square().sum(), dim=3)
    assert torch.equal(bowl.start(), torch.zeros(3, dtype=torch.float64))


def test_a_start_of_another_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"start must have shape \(3,\).*got \(2,\)"):
        zotune.objective(lambda x: x.sum(), dim=3, start=[0.0, 1.0])
