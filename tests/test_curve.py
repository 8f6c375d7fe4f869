"""Curves on a common grid of spent budget."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import zotune
from tests.instrument import minimize, parse_config
from zotune.core.curve import Observation, together
from zotune.core.grid import budget_grid, crosses
from zotune.loop import Loop


@given(budget=st.integers(1, 10**9), points=st.integers(2, 320))
def test_the_grid_runs_from_nothing_to_the_budget_in_at_most_so_many_points(
    budget: int, points: int
) -> None:
    grid = budget_grid(budget, points)
    assert grid[0] == 0
    assert grid[-1] == budget
    assert len(grid) == min(points, budget + 1)
    assert grid == sorted(set(grid))


@given(budget=st.integers(1, 2000), before=st.integers(0, 2000), width=st.integers(1, 300))
def test_a_step_crosses_the_grid_where_a_point_lies_in_it(
    budget: int, before: int, width: int
) -> None:
    grid = budget_grid(budget)
    expected = any(before <= point < before + width for point in grid)
    assert crosses(grid, before, before + width) == expected


@pytest.mark.parametrize("q", [1, 3, 7, 10])
@pytest.mark.parametrize("difference", ["forward", "central"])
def test_every_point_carries_the_last_step_at_or_before_it(
    bowl: zotune.Objective, q: int, difference: str
) -> None:
    config = parse_config({"q": q, "budget": 1000, "difference": difference})
    loop = Loop(config, bowl)
    states = [loop.init()]
    while loop.status(states[-1]) == "running":
        states.append(loop.step(states[-1]))
    spent = [loop.spent(state) for state in states]
    final = loop.advance(states[-1])
    for row in loop.curve_rows(final):
        last = max(i for i, s in enumerate(spent) if s <= row["spent"])
        expected = float(bowl.values(states[last].x))
        assert row["steps"] == states[last].steps
        assert row["loss"] == pytest.approx(expected, rel=1e-12)


def test_curves_of_all_block_sizes_share_their_grid(bowl: zotune.Objective) -> None:
    grids = {
        tuple(minimize(bowl, q=q, budget=997, difference=difference).curve["spent"])
        for q in (1, 4, 10)
        for difference in ("forward", "central")
    }
    assert len(grids) == 1


@pytest.mark.parametrize(("difference", "q"), [("forward", 4), ("central", 3)])
def test_a_rest_that_buys_no_direction_is_spent_on_the_grid_only(
    bowl: zotune.Objective, difference: str, q: int
) -> None:
    """Reports and the run itself say what was charged; curves of all q end at the budget."""
    reports: list[dict[str, Any]] = []
    run = minimize(
        bowl,
        q=q,
        budget=21,
        count="evaluations",
        difference=difference,
        on_report=reports.append,
    )
    assert reports[-1]["spent"] == reports[-1]["evaluations"] == run.spent == 20
    assert (run.rows[-1]["spent"], run.rows[-1]["evaluations"]) == (21, 20)
    assert "exhausted after 20 of 21 evaluations" in repr(run)


def test_looking_costs_nothing_where_a_step_knows_the_loss(bowl: zotune.Objective) -> None:
    forward = minimize(bowl, q=1, budget=500)
    central = minimize(bowl, q=1, budget=500, difference="central")
    assert forward.rows[-1]["monitored"] <= 18
    assert central.rows[-1]["monitored"] >= 320


def observation(loss: list[float], **known: torch.Tensor) -> Observation:
    values = torch.tensor(loss, dtype=torch.float64)
    none = torch.zeros(len(loss), dtype=torch.bool)
    tensors = {"loss": values, "best_loss": values, "diverged": none} | known
    counters = dict.fromkeys(("queries", "evaluations", "monitored", "steps", "q", "spent"), 1)
    return Observation(**counters, tensors=tensors)


def test_a_row_holds_means_over_replicates() -> None:
    row = observation([1.0, 2.0, 6.0]).row("running", 0.5)
    assert row["loss"] == pytest.approx(3)
    assert row["gap"] == pytest.approx(2.5)
    assert row["loss_std"] == pytest.approx(7**0.5)
    assert row["grad_norm2"] is None
    assert observation([1.0]).row("running", None)["loss_std"] == 0


def test_a_metric_that_an_iterate_adds_arrives_in_the_row() -> None:
    known = {"accuracy": torch.tensor([0.5]), "unknown": torch.tensor([math.nan])}
    row = observation([1.0], **known).row("running", None)
    assert (row["accuracy"], row["unknown"]) == (0.5, None)


def test_replicates_that_were_observed_apart_are_one_row() -> None:
    one, other = observation([1.0]), replace(observation([4.0]), spent=4, steps=9)
    seen = together([one, other])
    assert (seen.spent, seen.steps) == (2, 5)
    assert seen.row("running", None)["loss"] == 2.5


def test_losses_near_the_largest_number_do_not_overflow_the_mean() -> None:
    row = observation([1.7e308, 1.7e308, 1.0]).row("running", None)
    assert math.isfinite(row["loss"])
    assert math.isfinite(row["loss_std"])


def test_all_rows_of_a_run_have_the_same_keys(bowl: zotune.Objective) -> None:
    for diagnostics in (False, True):
        reported: list[dict[str, object]] = []
        run = minimize(bowl, q=2, budget=100, diagnostics=diagnostics, on_report=reported.append)
        for rows in (run.rows, reported):
            (keys,) = {tuple(row) for row in rows}
            assert ("snr" in keys) == diagnostics
            assert "q" in keys
        assert set(reported[0]) - set(run.rows[0]) == {"start_loss", "L", "L_estimated"}
