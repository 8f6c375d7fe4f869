"""A function that is constant over the default mu: mu is found, or what to set is said."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import zotune
from tests.conformance.resuming import on_vectors
from zotune.addresses import Keys
from zotune.loop import Loop
from zotune.runs.checkpoint import load_loop, save_loop
from zotune.weights.objective import WeightsObjective

CONSTANT = {"estimator": "avg", "q": 5, "step": "constant", "eta": 0.1}
METHODS = [
    CONSTANT,
    CONSTANT | {"difference": "central"},
    {"estimator": "avg", "q": 1, "update": "sgd", "step": "constant", "eta": 0.01},
    {"estimator": "align", "q": 5},
    {"estimator": "avg"},
]


def examples() -> tuple[Tensor, Tensor]:
    """Sixteen examples of two classes, which a linear model can tell apart."""
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(16, 8, generator=generator)
    return features, (features @ torch.randn(8, generator=generator) > 0).long()


def errors(w: Any) -> float:
    """The share of wrong answers of a linear model: constant around almost every point."""
    features, labels = examples()
    w = torch.as_tensor(np.asarray(w), dtype=torch.float32)
    answers = (features @ w[:16].view(2, 8).T + w[16:]).argmax(1)
    return float((answers != labels).double().mean())


class Errors(WeightsObjective):
    """The same of the weights of a module."""

    name = "errors"

    def __init__(self) -> None:
        self.module = nn.Linear(8, 2).requires_grad_(False)
        generator = torch.Generator().manual_seed(0)
        for parameter in self.module.parameters():
            parameter.normal_(0, 0.3, generator=generator)
        self.trained = dict(self.module.named_parameters())
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.calls = 0

    def batch(self, keys: Keys, step: int) -> None:
        return None

    def loss(self, batch: None) -> Tensor:
        self.calls += 1
        features, labels = examples()
        return (self.module(features).argmax(1) != labels).float().mean()

    def validate(self) -> dict[str, float]:
        calls, loss = self.calls, float(self.loss(None))
        self.calls = calls
        return {"loss": loss}


START = 0.3 * np.random.default_rng(0).standard_normal(18)


@pytest.mark.parametrize("told", METHODS, ids=str)
def test_mu_grows_until_values_differ_and_the_message_says_so(told: dict[str, Any]) -> None:
    run = zotune.minimize(errors, START, budget=200, **told)
    assert run.best_loss < 0.6 * errors(START)
    mu = float(run.chosen["mu"].value)
    assert 1e-6 < mu <= 1
    assert run.message.endswith(f"mu = {mu:g}: all differences over 1e-06 were zero")
    assert run.success
    assert run.nfev <= 200


@pytest.mark.parametrize("told", METHODS[:2], ids=str)
def test_mu_is_found_for_the_weights_of_a_model_and_charged(told: dict[str, Any]) -> None:
    objective = Errors()
    run = zotune.minimize(objective, budget=200, **told)
    assert run.best_loss < float(run.state.start_loss)
    assert "were zero" in run.chosen["mu"].reason
    assert objective.calls == run.nfev <= 200


def test_a_given_mu_is_kept_and_a_warning_says_what_to_set_after_the_first_blocks() -> None:
    advice = r"all differences over mu=1e-06 are zero, .*; give a larger mu"
    with pytest.warns(UserWarning, match=advice) as seen:
        run = zotune.minimize(errors, START, budget=200, mu=1e-6, **CONSTANT)
    assert len(seen) == 1
    assert not run.success
    assert "mu = 1e-06: all differences over mu=1e-06 are zero" in run.message
    found = zotune.minimize(errors, START, budget=200, mu=0.1, **CONSTANT)
    assert found.best_loss < 0.6 * errors(START)
    assert "mu" not in found.chosen


def test_a_constant_function_is_said_to_be_one() -> None:
    with pytest.warns(UserWarning, match="check that the function depends on x"):
        run = zotune.minimize(lambda x: 3.0, [1.0, 2.0], budget=200, **CONSTANT)
    assert "mu = 20: all differences over mu=20 are zero" in run.message
    assert not run.success


def test_coordinates_that_do_not_matter_are_no_plateau() -> None:
    """Along one of them f is constant, and and mu stays until most of them have been tried."""
    told = CONSTANT | {"directions": "coordinate", "q": 1, "eta": 0.01}
    for seed in range(8):
        run = zotune.minimize(
            lambda x: float((x[:2] ** 2).sum()), [1.0] * 20, budget=200, seed=seed, **told
        )
        assert "mu" not in run.chosen or float(run.chosen["mu"].value) <= 1e-5
        assert run.best_loss < 2


def test_a_slope_is_measured_as_before() -> None:
    run = zotune.minimize(lambda x: float((x**2).sum()), [1.0] * 4, budget=60, **CONSTANT)
    assert run.state.lanes[0].flat is None
    assert "mu" not in run.chosen


@pytest.mark.parametrize("step", ["constant", "auto"])
def test_a_resumed_run_finds_the_same_mu_bit_for_bit(step: str, tmp_path: Path) -> None:
    eta = 0.1 if step == "constant" else None
    told = {"estimator": "avg", "q": 2, "step": step, "eta": eta, "budget": 120}

    def make() -> Loop:
        objective = zotune.objective(errors, 18, start=START.tolist())
        return Loop(on_vectors(told | {"replicates": 1}).config, objective)

    whole = make()
    unbroken = whole.advance(whole.init())
    for until in (2, 5, 9, 40):
        loop, path = make(), tmp_path / "state.safetensors"
        save_loop(loop, loop.advance(loop.init(), until), path)
        again = make()
        state = again.advance(load_loop(again, path)[0])
        assert torch.equal(state.x, unbroken.x)
        assert again.curve_rows(state) == whole.curve_rows(unbroken)


def test_ask_and_tell_find_it_too() -> None:
    minimizer = zotune.Minimizer(START, budget=200, **CONSTANT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while not minimizer.done:
            minimizer.tell([errors(x) for x in minimizer.ask()])
    run = zotune.minimize(errors, START, budget=200, **CONSTANT)
    assert minimizer.result.best_loss == run.best_loss
    assert minimizer.result.chosen == run.chosen


@pytest.mark.parametrize("budget", [30, 60, 90, 150, 400])
def test_the_automatic_method_leaves_a_plateau_within_any_budget(budget: int) -> None:
    """Below five full blocks of 19 evaluations it works in subspaces, above it measures blocks."""
    run = zotune.minimize(errors, START, budget=budget)
    assert run.best_loss < 0.8 * errors(START)
    assert run.success
    assert run.nfev <= budget


@pytest.mark.parametrize("budget", [30, 60, 90, 150])
def test_it_goes_down_stairs(budget: int) -> None:
    start = 2 * np.random.default_rng(1).standard_normal(10)

    def stairs(x: Any) -> float:
        return float((np.floor(4 * np.abs(np.asarray(x))) ** 2).sum() / 7)

    run = zotune.minimize(stairs, start, budget=budget, array="numpy")
    assert run.best_loss < 0.6 * stairs(start)
