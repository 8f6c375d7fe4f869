"""Runs that cannot leave their start, where all differences vanish, say so."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import zotune
from zotune.core.ranking import AT_START, remarks
from zotune.runs.stopping import STATIONARY

DIM = 4 * 5 + 5 * 5 + 5
METHODS: dict[str, dict[str, Any]] = {
    "blocks": {"estimator": "avg", "q": 4, "budget": 400},
    "fused": {"estimator": "align", "q": 2, "budget": 2000, "step": "constant", "eta": 0.1},
    "adam": {"update": "adam", "q": 8, "step": "constant", "eta": 0.01, "budget": 400},
    "replicates": {"q": 4, "budget": 200, "replicates": 2},
}
NARROW: dict[str, Any] = {"mu": 1e-6}
"""Over such a distance the network is flat at zero; without it mu is searched, and found."""


def network(weights: Tensor) -> Tensor:
    """The loss of a plain network of three layers."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 4, dtype=torch.float64, generator=generator)
    first, second, third = torch.split(weights, [20, 25, 5])
    hidden = torch.tanh(torch.tanh(x @ first.view(4, 5)) @ second.view(5, 5))
    return (hidden @ third - torch.sin(x.sum(1))).square().mean()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:all differences over mu")
def test_a_network_at_zero_is_named_where_its_run_ends(method: str) -> None:
    run = zotune.minimize(zotune.objective(network, DIM), **NARROW, **METHODS[method])
    assert run.best_loss == pytest.approx(run.rows[0]["loss"], rel=1e-13)
    assert run.message.count(STATIONARY) == 1
    assert "a saddle (such as a network whose weights are all zero)" in run.message


@pytest.mark.parametrize("method", METHODS)
def test_a_network_at_zero_is_left_where_mu_is_not_given(method: str) -> None:
    run = zotune.minimize(zotune.objective(network, DIM), **METHODS[method])
    assert run.best_loss < run.rows[0]["loss"]
    assert STATIONARY not in run.message


@pytest.mark.parametrize("method", METHODS)
def test_the_same_network_elsewhere_is_not(method: str) -> None:
    start = 0.5 * torch.ones(DIM, dtype=torch.float64).cumsum(0).sin()
    run = zotune.minimize(zotune.objective(network, DIM, start=start), **METHODS[method])
    assert STATIONARY not in run.message


def test_a_run_that_leaves_a_saddle_later_is_not_named() -> None:
    run = zotune.minimize(zotune.objective(network, DIM), budget=2000)
    assert run.best_loss < 0.9 * run.rows[0]["loss"]
    assert STATIONARY not in run.message


@pytest.mark.filterwarnings("ignore:all differences over mu")
def test_a_trial_warns_of_it_once_and_its_record_says_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(tmp_path))
    bound = zotune.trainable(network, dim=DIM, name="saddle", q=4, budget=200, **NARROW)
    with caplog.at_level(logging.WARNING, "zotune"):
        for _ in range(2):
            trial = bound({})
            rows = [trial.train()]
            while not rows[-1]["done"]:
                rows.append(trial.train())
    assert [record.message for record in caplog.records] == [f"network: {STATIONARY}"] * 2
    assert remarks(rows[-1]["loss"], rows[-1]["start_loss"]) == [AT_START]
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    trial.save(str(folder))
    assert STATIONARY in zotune.load_run(str(folder)).message
