"""Step-size rules."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, inf, isfinite
from typing import Any

import numpy as np
import pytest
import torch

import zotune
from zotune.directions import DIRECTIONS
from zotune.errors import ConfigError, UnknownNameError
from zotune.estimators import ESTIMATORS, Estimator
from zotune.steps import STEPS, Line, StepRule


def rule(
    name: str = "theory",
    eta: float | None = None,
    *,
    q: int = 10,
    estimator: str = "avg",
    directions: str = "gaussian",
) -> StepRule:
    return StepRule(name, eta, q, 100, ESTIMATORS[estimator], DIRECTIONS[directions])


@pytest.mark.parametrize(
    ("estimator", "directions", "expected"),
    [
        ("avg", "gaussian", 10 / 111),
        ("avg", "sphere", 10 / 109),
        ("avg", "rademacher", 10 / 109),
        ("avg", "orthogonal", 10 / 100),
        ("avg", "coordinate", 10 / 100),
        ("align", "gaussian", 1.0),
        ("align", "orthogonal", 1.0),
        ("align-diag", "gaussian", 100 / 109),
        ("align-diag", "orthogonal", 1.0),
    ],
)
def test_the_theory_step_follows_estimator_and_directions(
    estimator: str, directions: str, expected: float
) -> None:
    found = rule(estimator=estimator, directions=directions).size(0, 10)
    assert found == pytest.approx(expected)


def test_eta_is_a_factor_under_theory_and_the_step_under_constant() -> None:
    assert rule(eta=3.0).size(5, 10) == pytest.approx(3 * rule().size(5, 10))
    assert rule("constant", 0.3).size(5, 10) == 0.3


def test_sqrt_decay_falls_with_the_root_of_the_step() -> None:
    assert [rule("sqrt-decay", 0.6).size(t, 10) for t in (0, 3, 8)] == pytest.approx(
        [0.6, 0.3, 0.2]
    )


@pytest.mark.parametrize("name", ["theory", "constant", "sqrt-decay"])
def test_the_step_of_a_shrunken_block_is_rescaled(name: str) -> None:
    shrunken = rule(name, 0.5)
    assert shrunken.size(0, 1) / shrunken.size(0, 10) == pytest.approx((1 / 102) / (10 / 111))


def test_weights_of_the_average_are_eta_for_avg_and_eta_q_for_align() -> None:
    averaging, aligning = rule("constant", 0.5), rule("constant", 0.5, estimator="align")
    assert averaging.weight(0, 10) == 0.5
    assert aligning.weight(0, 10) == pytest.approx(0.5 * 10 / 100)


def test_a_constant_step_without_eta_is_refused() -> None:
    with pytest.raises(ConfigError, match="step 'constant' needs a step size, got eta=None"):
        rule("constant")


def test_an_unknown_rule_offers_the_nearest() -> None:
    with pytest.raises(
        UnknownNameError, match=r"step 'teory' is not known \(did you mean 'theory'"
    ):
        rule("teory")


def test_theory_needs_an_estimator_that_declares_its_moments() -> None:
    mute = Estimator("mute", "U v", "", lambda v, block: v)
    with pytest.raises(ConfigError, match="'mute' declares none; give step='constant'"):
        StepRule("theory", None, 1, 10, mute, DIRECTIONS["gaussian"])
    constant = StepRule("constant", 0.1, 4, 10, mute, DIRECTIONS["gaussian"])
    assert constant.size(0, 2) == pytest.approx(0.05)


@pytest.mark.parametrize("slope", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("value", [2.0, inf])
def test_a_searched_step_is_shortened_along_directions_that_do_not_descend(
    slope: float, value: float
) -> None:
    """As a momentum's may be; a step that is no number was tried there once."""
    tried = list[float]()
    line = Line(
        eta=1.0, t=3, q=1, dim=2, value=1.0, rounding=1e-15, v=torch.zeros(1), first=lambda: 1.0,
        natural=None, memory={**STEPS["auto"].memory, "log": 0.0}, slope=lambda: slope,
    )  # fmt: skip
    search = STEPS["auto"].search
    assert search is not None
    steps = search(line)
    eta = next(steps)
    taken: float | None = 1.0
    try:
        while True:
            tried.append(eta)
            eta = steps.send(value)
    except StopIteration as end:
        taken = end.value
    assert taken is None
    assert all(0 < later <= earlier / 2 for earlier, later in pairwise(tried))
    assert isfinite(line.memory["log"])


@pytest.mark.parametrize(("sees_batches", "factor"), [(False, 1.0), (True, 0.5)])
def test_a_searched_step_on_mini_batches_is_shortened_as_steps_go_by(
    sees_batches: bool, factor: float
) -> None:
    line = Line(
        eta=1.0, t=30, q=1, dim=2, value=1.0, rounding=1e-15, v=torch.zeros(1), first=lambda: 1.0,
        natural=None, memory={**STEPS["auto"].memory, "log": 0.0}, slope=lambda: 1.0,
        sees_batches=sees_batches,
    )  # fmt: skip
    search = STEPS["auto"].search
    assert search is not None
    steps = search(line)
    eta = next(steps)
    assert eta == pytest.approx(factor)
    with pytest.raises(StopIteration) as end:
        steps.send(1.0 - eta + eta**2 / 2)  # the parabola whose minimum is at 1
    assert end.value.value == eta
    assert line.memory["log"] == pytest.approx(0.0)  # the length that a single batch would have


def scale_after(losses: Sequence[float], *, sees_batches: bool = True) -> float:
    """By what a searched step is scaled after these values of f(x), one a step."""
    memory = {**STEPS["auto"].memory, "log": 0.0}
    search = STEPS["auto"].search
    assert search is not None
    for t, loss in enumerate(losses):
        line = Line(
            eta=1.0, t=t, q=1, dim=2, value=loss, rounding=1e-15, v=torch.zeros(1),
            first=lambda: 1.0, natural=None, memory=memory, slope=lambda: 1.0,
            sees_batches=sees_batches,
        )  # fmt: skip
        next(search(line))
    return memory["scale"]


def test_steps_are_scaled_down_while_losses_of_new_mini_batches_stay_high() -> None:
    noise = np.random.default_rng(0).normal(size=200) / 10
    risen = np.concatenate([np.ones(20), np.full(180, 3.0)])
    assert scale_after(risen + noise) < 0.5
    assert scale_after(risen + noise, sees_batches=False) == 1
    again = np.concatenate([risen, np.geomspace(3, 0.01, 200)])
    assert scale_after(again + np.tile(noise, 2)) > 2 * scale_after(risen + noise)


def test_noise_alone_leaves_most_runs_their_steps() -> None:
    noise = [np.random.default_rng(seed).normal(size=300) / 10 for seed in range(40)]
    scales = [scale_after((1 + one).tolist()) for one in noise]
    assert np.median(scales) == 1
    assert np.mean(np.array(scales) < 0.5) < 0.25


def test_a_searched_step_that_noise_rejects_again_and_again_does_not_come_to_nothing() -> None:
    rng = np.random.default_rng(0)

    def noisy(x: np.ndarray[Any, Any]) -> float:
        return float(((x - 1) ** 2).sum() + 1e-3 * rng.standard_normal())

    for chosen in ({"estimator": "avg", "q": 1}, {"estimator": "align", "q": 2}):
        run = zotune.minimize(noisy, [0.0] * 6, budget=600, **chosen)  # differences over 1e-6
        assert run.status == "exhausted"
        assert all(0 < exp(lane.numbers["log"]) < 1e-200 for lane in run.state.lanes)
