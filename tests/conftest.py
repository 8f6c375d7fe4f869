"""Shared by all tests: derandomised Hypothesis, one Ray, and a function that counts its calls."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings
from torch import Tensor

import zotune
from zotune.clusters.own_ray import LOCAL, few_processes, idle_agent, own_options, started
from zotune.clusters.own_workers import inherited
from zotune.clusters.tokens import own_token

for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:  # as with nohup, or in the background
        signal.signal(number, signal.SIG_DFL)  # which the processes that tests interrupt inherit
torch.set_num_threads(1)  # two threads that wait for each other on a busy machine take far longer
settings.register_profile("zotune", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("zotune")


class CountingBowl:
    """A smooth function of one vector, evaluated row by row, that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        scale = torch.arange(1, len(x) + 1, dtype=x.dtype, device=x.device) / len(x)
        return (scale * (x - 1) ** 2).sum() + torch.cos(x).sum()


@pytest.fixture
def counting_bowl() -> CountingBowl:
    return CountingBowl()


@pytest.fixture
def bowl() -> zotune.Objective:
    """The function of ``CountingBowl`` in ten dimensions, its smoothness known, declared cheap."""
    return zotune.objective(CountingBowl(), dim=10, L=3.0, cheap=True, name="bowl")


QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),  # nobody else runs code in the Ray of a test
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ADDRESS": "local",  # never a cluster that happens to run on this machine
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


@pytest.fixture(scope="session")
def shared_ray() -> Iterator[None]:
    """One Ray for all tests of a worker: two CPUs, and a GPU that is not there."""
    os.environ.update(QUIET)
    begun = started(LOCAL, cpus=2, num_gpus=1, **own_options())
    with own_token(), few_processes(), idle_agent(), inherited(), begun:
        yield
