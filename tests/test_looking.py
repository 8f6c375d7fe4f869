"""How often a run is looked at changes nothing of what it does."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import zotune
from tests.instrument import minimize, parse_config
from tests.weights.models import bits
from tests.weights.toy import Toy
from tests.weights.toy import settings as toy_settings
from zotune.core.names import DIVERGED, RUNNING
from zotune.loop import Loop


def walled(x: Tensor) -> float:
    """Infinite in thin slices, which central differences may step over."""
    return math.inf if 0.30 < float(x[0]) % 1 < 0.31 else float((x**2).sum())


TARGETS: dict[str, Any] = {
    "quadratic": {"name": "quadratic", "dim": 6},
    "rosenbrock": {"name": "rosenbrock", "dim": 6},
    "stochastic": {"name": "stochastic-logistic", "dim": 6, "samples": 40, "batch": 8},
    "plain": zotune.objective(lambda x: (x**4).sum(), 6, L=10.0, start=[1.0] * 6),
    "walled": zotune.objective(walled, 6, L=2.0, start=[1.0] * 6),
}
ONE_LOOK: dict[str, Any] = {"points": 2, "report_every": 10**6}

looks = st.fixed_dictionaries(
    {"points": st.integers(2, 320), "report_every": st.integers(1, 80), "reports": st.booleans()}
)
runs = st.fixed_dictionaries(
    {
        "estimator": st.sampled_from(["avg", "align"]),
        "q": st.integers(1, 6),
        "difference": st.sampled_from(["forward", "central"]),
        "eta": st.sampled_from([1e-3, 1.0, 30.0, 1e6]),
        "count": st.sampled_from(["directions", "evaluations"]),
        "replicates": st.integers(1, 3),
        "budget": st.integers(30, 200),
        "seed": st.integers(0, 5),
    }
)


@given(target=st.sampled_from(sorted(TARGETS)), run=runs, look=looks)
def test_looking_changes_neither_point_nor_counters_nor_status(
    target: str, run: dict[str, Any], look: dict[str, Any]
) -> None:
    rows: list[Any] = []
    look = {"on_report": rows.append if look.pop("reports", True) else None} | look
    seldom, often = (
        minimize(TARGETS[target], **run, **way)  # type: ignore[arg-type]
        for way in (ONE_LOOK, look)
    )
    assert torch.equal(seldom.x, often.x)
    assert seldom.state.steps == often.state.steps
    assert seldom.state.ledger.queries == often.state.ledger.queries
    assert seldom.state.ledger.evaluations == often.state.ledger.evaluations
    assert seldom.status == often.status
    assert torch.equal(seldom.state.diverged, often.state.diverged)


def test_a_run_that_mu_no_longer_moves_has_diverged_however_it_is_looked_at() -> None:
    run = {"estimator": "avg", "q": 2, "eta": 1e6, "budget": 2000}
    ends = [
        minimize({"name": "quadratic", "dim": 20}, points=points, **run)  # type: ignore[arg-type]
        for points in (2, 17, 320)
    ]
    assert {end.status for end in ends} == {DIVERGED}
    assert len({end.state.steps for end in ends}) == 1


def test_noise_does_not_hide_that_mu_no_longer_moves_a_point() -> None:
    generator = torch.Generator().manual_seed(0)

    def noisy(x: Tensor) -> float:
        return float((x**2).sum()) * (1 + 1e-3 * float(torch.rand((), generator=generator)))

    run = minimize(noisy, [1.0] * 4, q=2, budget=400, step="constant", eta=1e3, mu=1e-3)
    assert run.status == DIVERGED


@given(
    eta=st.sampled_from([1e-3, 1.0, 1e4, 1e9, 1e30]),
    report_every=st.integers(1, 40),
    points=st.integers(2, 320),
    difference=st.sampled_from(["forward", "central"]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_looking_at_weights_changes_nothing_of_their_run(
    eta: float, report_every: int, points: int, difference: str, dtype: torch.dtype
) -> None:
    ends = []
    for way in (ONE_LOOK, {"report_every": report_every, "points": points}):
        config = parse_config(toy_settings(eta=eta, difference=difference) | way)
        toy = Toy(dtype)
        loop = Loop(config, toy)
        state = loop.init()
        while loop.status(state) == RUNNING:
            state, _ = loop.report(loop.advance_to_report(state))
        ledger = (state.ledger.queries, state.ledger.evaluations)
        ends.append((bits(toy), state.steps, ledger, loop.status(state)))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("difference", ["forward", "central"])
def test_weights_that_mu_no_longer_moves_have_diverged(difference: str) -> None:
    config = parse_config(toy_settings(eta=1e14, difference=difference, budget=300, mu=1e-3))
    loop = Loop(config, Toy())
    state = loop.advance(loop.init())
    assert loop.status(state) == DIVERGED
    assert loop.spent(state) < 300
