"""Shared by all tests: derandomised Hypothesis, and a function that counts its calls."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings
from torch import Tensor

import zotune

torch.set_num_threads(1)  # two threads that wait for each other on a busy machine take far longer
settings.register_profile("zotune", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("zotune")


class CountingBowl:
    """A smooth function of one vector, evaluated row by row, that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        scale = torch.arange(1, len(x) + 1, dtype=x.dtype) / len(x)
        return (scale * (x - 1) ** 2).sum() + torch.cos(x).sum()


@pytest.fixture
def counting_bowl() -> CountingBowl:
    return CountingBowl()


@pytest.fixture
def bowl() -> zotune.Objective:
    """The function of ``CountingBowl`` in ten dimensions, its smoothness known."""
    return zotune.objective(CountingBowl(), dim=10, L=3.0, name="bowl")
