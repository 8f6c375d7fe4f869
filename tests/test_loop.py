"""The loop: steps, ends, divergence and the checks before the first step."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import zotune
from tests.instrument import minimize, parse_config
from zotune.core.names import DIVERGED, EXHAUSTED, RUNNING
from zotune.errors import ConfigError, ObjectiveError
from zotune.estimators import register
from zotune.loop import Loop
from zotune.objectives import build_problem


def loop_of(objective: zotune.Objective, x0: Any = None, **settings: Any) -> Loop:
    return Loop(parse_config({"budget": 100, "q": 2} | settings), objective, x0)


def test_a_step_is_x_minus_eta_times_the_estimate() -> None:
    slope = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    for cheap in (True, False):
        linear = zotune.objective(lambda x: slope @ x, 3, cheap=cheap)
        loop = loop_of(linear, estimator="align", q=3, step="constant", eta=0.5, budget=3)
        after = loop.step(loop.init())
        assert torch.allclose(after.x[0], -0.5 * slope, atol=1e-8)
        assert after.steps == 1
        repeated = 0 if cheap else 1  # the start, to see noise
        assert (after.ledger.queries, after.ledger.evaluations) == (3, 4 + repeated)


def test_the_last_block_shrinks_and_its_step_with_it() -> None:
    """With an unscaled step, a remainder of one direction wrecks an averaging run."""
    problem = {"name": "quadratic", "dim": 50}
    whole = minimize(problem, estimator="avg", q=25, budget=1000, replicates=10)
    more = minimize(problem, estimator="avg", q=25, budget=1001, replicates=10)
    assert more.state.ledger.queries == 1001
    assert more.rows[-1]["loss"] == pytest.approx(whole.rows[-1]["loss"], rel=0.1)


def test_a_rest_too_small_for_a_direction_is_left(bowl: zotune.Objective) -> None:
    run = minimize(bowl, q=4, budget=11, count="evaluations")
    assert run.status == EXHAUSTED
    assert run.state.ledger.evaluations == 10
    assert run.rows[-1]["spent"] == 11


def test_batched_and_solo_runs_agree_within_rounding_over_mu() -> None:
    problem = {"name": "quadratic", "dim": 30, "condition": 10.0}
    settings: dict[str, Any] = {"q": 5, "budget": 200, "mu": 1e-4}
    together = minimize(problem, replicates=4, **settings)
    for replicate in range(4):
        alone = minimize(problem, replicate=replicate, **settings)
        assert torch.allclose(alone.x[0], together.x[replicate], atol=1e-9)


@pytest.mark.parametrize("difference", ["forward", "central"])
@pytest.mark.parametrize(("estimator", "q"), [("avg", 1), ("avg", 7), ("align", 1), ("align", 7)])
@pytest.mark.parametrize("problem", ["quadratic", "rosenbrock", "stochastic-logistic"])
def test_steps_that_no_curve_shows_are_those_that_are_taken_one_by_one(
    problem: str, estimator: str, q: int, difference: str
) -> None:
    objective = build_problem({"name": problem, "dim": 37})
    settings = {"q": q, "estimator": estimator, "difference": difference}
    loop = loop_of(objective, budget=200, points=4, replicates=3, **settings)
    state = begun = loop.init()
    while loop.status(state) == RUNNING:
        state = loop.step(state)
    assert loop.spent(state) == 200
    whole, parts = loop.advance(begun), begun
    for until in (1, 2, 50, 99, 200):
        parts = loop.advance(parts, until)
    for other in (whole, parts):
        assert torch.equal(other.x, state.x)
        assert torch.equal(other.average, state.average)
        assert other.steps == state.steps
        assert (other.ledger.queries, other.ledger.evaluations) == (
            state.ledger.queries,
            state.ledger.evaluations,
        )
        assert [seen.spent for seen in other.curve.seen[:-1]] == [
            seen.spent for seen in state.curve.seen
        ]


def test_a_state_stays_as_it_is_while_the_run_goes_on() -> None:
    objective = build_problem({"name": "quadratic", "dim": 20})
    loop = loop_of(objective, q=1, budget=90, points=3, replicates=2)
    early = loop.advance(loop.init(), 20)
    x, loss = early.x.clone(), early.loss.clone()
    loop.advance(early)
    assert torch.equal(early.x, x)
    assert torch.equal(early.loss, loss)


def test_a_step_that_fails_between_two_points_of_the_curve_is_evaluated_once() -> None:
    calls = 0

    def cliff(x: Tensor) -> float:
        nonlocal calls
        calls += 1
        return math.inf if calls > 41 else float(x.square().sum())

    settings: dict[str, Any] = {"q": 1, "points": 2, "step": "constant", "eta": 0.01}
    loop = loop_of(zotune.objective(cliff, 3), [1.0, 1.0, 1.0], **settings)
    state = loop.advance(loop.init())
    assert state.diverged.tolist() == [True]
    assert state.steps == state.ledger.queries == 21
    assert calls == state.ledger.evaluations + state.ledger.monitored
    tame = loop_of(zotune.objective(lambda x: x.square().sum(), 3), [1.0, 1.0, 1.0], **settings)
    assert torch.equal(state.x, tame.advance(tame.init(), 20).x)


class Walled(zotune.Objective):
    """A bowl with a wall before its middle, finite again for an x that is lost."""

    L, cheap = 2.0, True

    def __init__(self, dim: int = 3, *, pure: bool) -> None:
        super().__init__("walled", dim)
        self.pure = pure  # type: ignore[misc]

    def values(self, points: Tensor) -> Tensor:
        square = points.nan_to_num(1, 1, 1).square().sum(-1)
        return torch.where((points[:, 0] - 0.6).abs() < 0.01, torch.inf, square)


@pytest.mark.parametrize("difference", ["forward", "central"])
@pytest.mark.parametrize("directions", ["gaussian", "coordinate"])
@pytest.mark.parametrize("estimator", ["avg", "align", "align-diag", "sign"])
def test_a_wall_that_is_noticed_late_ends_a_replicate_where_it_stood(
    estimator: str, directions: str, difference: str
) -> None:
    register("sign", formula="U sign(v) / q")(lambda v, block: v.sign() / block.q)
    settings = {"estimator": estimator, "directions": directions, "difference": difference}
    settings |= {"mu": 0.05, "step": "constant", "eta": 0.02}
    ends = []
    for pure in (False, True):
        objective = Walled(pure=pure)
        loop = loop_of(objective, [1.0] * 3, q=2, budget=900, replicates=4, points=2, **settings)
        ends.append(loop.advance(loop.init()))
    stepped = loop.init()
    while loop.status(stepped) == RUNNING:
        stepped = loop.step(stepped)
    for end in ends:
        assert end.diverged.any()
        assert torch.equal(end.x, stepped.x)
        assert torch.equal(end.loss, ends[0].loss)
        assert (end.steps, end.ledger.evaluations) == (stepped.steps, stepped.ledger.evaluations)


def test_a_wall_behind_a_direction_that_depends_on_another_is_noticed() -> None:
    """Of two opposite signs the second has no weight, and what it met is not to be seen in x."""
    for seed in range(100):
        settings = {"estimator": "align", "directions": "rademacher", "seed": seed, "mu": 0.05}
        settings |= {"step": "constant", "eta": 0.1, "q": 2, "budget": 60, "points": 2}
        loop = loop_of(Walled(2, pure=True), [0.68] * 2, **settings)
        walked, stepped = loop.advance(loop.init()), loop.init()
        while loop.status(stepped) == RUNNING:
            stepped = loop.step(stepped)
        assert (walked.steps, walked.lost) == (stepped.steps, stepped.lost)
        assert torch.equal(walked.x, stepped.x)


def test_a_batched_function_may_answer_in_a_buffer_of_its_own() -> None:
    buffer = torch.empty(3, dtype=torch.float64)

    def bowl_in_place(x: Tensor) -> Tensor:
        return torch.sum(x.square(), -1, out=buffer[: len(x)])

    objective = zotune.objective(bowl_in_place, 4, batched=True, L=2.0)
    loop = loop_of(objective, [1.0] * 4, budget=200)
    state = loop.advance(loop.init())
    assert float(state.start_loss) == 4
    assert float(state.best_loss) < 1e-3
    assert float(state.loss) == pytest.approx(float(state.x.square().sum()))


def test_configurations_share_their_draws(bowl: zotune.Objective) -> None:
    few, many = loop_of(bowl, q=2), loop_of(bowl, q=5, estimator="avg")
    everything = (range(2), range(10))
    assert torch.equal(
        few.iterate.prober.block(7, 2).rows(*everything),
        many.iterate.prober.block(7, 5).rows(*everything),
    )


def test_memory_is_processed_in_pieces(bowl: zotune.Objective) -> None:
    """Two vectors of ten float64 fit; a block of seven does not."""
    roomy = minimize(bowl, q=7, budget=70, difference="forward")
    narrow = minimize(bowl, q=7, budget=70, difference="forward", block_bytes=160)
    assert torch.allclose(roomy.x, narrow.x, rtol=1e-7)
    assert roomy.state.ledger == narrow.state.ledger


def test_points_that_the_objective_keeps_are_its_own() -> None:
    kept: list[Tensor] = []

    def remember(x: Tensor) -> float:
        kept.append(x)
        return float((x**2).sum())

    minimize(remember, x0=[1.0, 2.0], q=1, budget=4, L=2.0)
    values = [tuple(point.tolist()) for point in kept]
    assert len(set(values)) > 5


def test_an_objective_that_writes_into_its_points_harms_nobody() -> None:
    def careless(x: Tensor) -> float:
        value = float((x**2).sum())
        x.zero_()
        return value

    settings: dict[str, Any] = {"x0": [1.0, 2.0], "q": 2, "budget": 20, "L": 2.0}
    spoilt = minimize(careless, **settings)
    clean = minimize(lambda x: (x**2).sum(), **settings)
    assert torch.equal(spoilt.x, clean.x)
    assert spoilt.rows == clean.rows


def unknown_bowl() -> zotune.Objective:
    return zotune.objective(lambda x: ((x - 1) ** 2).sum() * 50, 4)


def test_a_state_of_a_constant_step_is_probed_before_it_takes_a_theory_step() -> None:
    donor = loop_of(unknown_bowl(), step="constant", eta=1e-3)
    halfway = donor.advance(donor.init(), until=40)
    heir = loop_of(unknown_bowl(), step="theory")
    adopted = heir.adopt(halfway)
    assert adopted.inverse_smoothness.item() == pytest.approx(1 / 100, rel=1e-3)
    assert heir.spent(adopted) > donor.spent(halfway)
    end = heir.advance(adopted)
    assert float(end.loss) < 0.01 * float(halfway.loss)
    assert [row["spent"] for row in heir.curve_rows(end)] == heir.grid


def test_what_is_known_of_smoothness_goes_before_what_another_run_found() -> None:
    donor = loop_of(unknown_bowl(), step="theory")
    found = donor.init()
    assert torch.equal(donor.adopt(found).inverse_smoothness, found.inverse_smoothness)
    told = loop_of(unknown_bowl(), step="theory", L=400.0).adopt(found)
    assert told.inverse_smoothness.item() == pytest.approx(1 / 400)


def test_a_budget_too_small_to_probe_is_refused_before_a_probe() -> None:
    calls = []

    def fn(x: Tensor) -> float:
        calls.append(1)
        return float((x**2).sum())

    with pytest.raises(ConfigError, match="budget must cover an estimate of L and one step: that"):
        minimize(fn, x0=[1.0] * 4, q=1, budget=2)
    assert len(calls) == 1


# Divergence


def explosive(limit: float = 1e3) -> zotune.Objective:
    """Infinite outside a ball: some replicates leave it, others do not."""

    def fn(x: Tensor) -> float:
        square = float((x**2).sum())
        return square if square < limit else math.nan

    return zotune.objective(fn, 3, L=2.0)


def test_a_diverged_replicate_ends_alone_and_is_never_dropped() -> None:
    x0 = torch.tensor([[1.0, 1, 1], [18.0, 18, 18], [1.0, 1, 1]])
    run = minimize(
        explosive(), x0=x0, q=3, budget=60, replicates=3, step="constant", eta=-0.0 + 1.05
    )
    alone = minimize(explosive(), x0=x0[:1], q=3, budget=60, step="constant", eta=1.05)
    last = run.rows[-1]
    assert run.state.diverged.tolist() == [False, True, False]
    assert last["diverged"] == 1
    assert run.status == EXHAUSTED
    assert torch.allclose(run.x[0], alone.x[0], rtol=1e-6)
    counted = max(float(run.state.start_loss[1]), float(run.state.loss[1]))
    others = run.state.loss[[0, 2]].sum()
    assert last["loss"] == pytest.approx((counted + float(others)) / 3)


def test_a_run_whose_replicates_have_all_diverged_ends_with_its_curve() -> None:
    run = minimize(
        explosive(), x0=[3.0, 3.0, 3.0], q=1, budget=500, replicates=2, step="constant", eta=40.0
    )
    assert run.status == DIVERGED
    assert run.rows[-1]["status"] == DIVERGED
    assert run.rows[0]["status"] == "running"
    assert 0 < run.rows[-1]["spent"] < 500
    assert all(math.isfinite(row["loss"]) for row in run.rows)
    assert run.rows[-1]["loss"] >= run.rows[0]["loss"]


def test_values_around_a_point_may_be_infinite_without_harm_to_the_others() -> None:
    def walled(x: Tensor) -> float:
        return math.inf if x[0] > 5 else float((x**2).sum())

    x0 = torch.tensor([[5.0, 0.0], [1.0, 1.0]])
    run = minimize(walled, x0=x0, q=2, budget=40, replicates=2, L=2.0)
    assert run.state.diverged.tolist() == [True, False]
    assert torch.equal(run.x[0], x0[0].double())
    assert run.rows[-1]["loss"] == pytest.approx((25 + float(run.state.loss[1])) / 2)


def test_a_run_that_has_gone_where_mu_moves_nothing_has_diverged() -> None:
    """Its loss stays finite for ever: x + mu·u rounds to x, and v is zero."""
    run = minimize(
        {"name": "quadratic", "dim": 6}, q=3, budget=3000, step="constant", eta=1e3, replicates=2
    )
    assert run.status == DIVERGED
    assert run.rows[-1]["loss"] > 1e6 * run.rows[0]["loss"]


def test_a_plateau_is_not_divergence() -> None:
    run = minimize(
        lambda x: float(x.round().abs().sum()),
        x0=[1.0, 1.0],
        q=1,
        budget=50,
        step="constant",
        eta=1.0,
    )
    assert run.status == EXHAUSTED


def test_a_diverged_replicate_is_not_evaluated_again() -> None:
    calls: list[float] = []

    def fn(x: Tensor) -> float:
        calls.append(float(x[0]))
        return math.nan if x[0] > 100 else float(x[0] ** 2)

    run = minimize(fn, x0=[[1.0], [90.0]], q=1, budget=30, replicates=2, step="constant", eta=1.5)
    assert run.state.diverged.tolist()[1]
    both_calls_of_a_step = 2
    assert sum(value > 100 or math.isnan(value) for value in calls) == 2 * both_calls_of_a_step


# Checks


@pytest.mark.parametrize("estimator", ["align"])
def test_more_directions_than_dimensions_are_refused_where_they_mean_nothing(
    bowl: zotune.Objective, estimator: str
) -> None:
    with pytest.raises(ConfigError, match=r"q must be at most the dimension for estimator 'align'"):
        loop_of(bowl, estimator=estimator, q=11)
    with pytest.raises(ConfigError, match=r"for directions 'orthogonal', got q=11 with d=10"):
        loop_of(bowl, estimator="avg", directions="orthogonal", q=11)
    assert loop_of(bowl, estimator="avg", q=11).config.q == 11


def test_a_budget_below_one_step_is_refused(bowl: zotune.Objective) -> None:
    with pytest.raises(
        ConfigError, match=r"central with q=8\): that needs 16 evaluations, got bud"
    ):
        loop_of(bowl, difference="central", q=8, budget=10, count="evaluations")


@pytest.mark.parametrize("x0", [[0.0] * 9, [[0.0] * 10] * 3, 1.0])
def test_a_start_of_the_wrong_shape_is_refused(bowl: zotune.Objective, x0: Any) -> None:
    with pytest.raises(ConfigError, match=r"x0 must have shape \(10,\) or \(2, 10\), got"):
        loop_of(bowl, x0, replicates=2)


def test_a_start_that_is_not_finite_is_refused(bowl: zotune.Objective) -> None:
    with pytest.raises(ConfigError, match="x0 must be finite"):
        loop_of(bowl, [math.inf] * 10)


def test_an_objective_not_finite_at_the_start_is_refused() -> None:
    loop = loop_of(zotune.objective(lambda x: math.nan, 2), q=1, L=1.0)
    with pytest.raises(ObjectiveError, match=r"must be finite at the start point, got \[nan\]"):
        loop.init()


def test_a_radius_that_rounding_swallows_is_refused(bowl: zotune.Objective) -> None:
    message = r"mu must move the point: with mu=1e-30 every x \+ mu·u rounds to x in float64"
    with pytest.raises(ConfigError, match=message):
        loop_of(bowl, [1.0] * 10, mu=1e-30)


# Diagnostics


def test_diagnostics_tell_noise_angle_and_unmoved_coordinates() -> None:
    problem = {"name": "quadratic", "dim": 20, "condition": 5.0}
    settings: dict[str, Any] = {"budget": 100, "q": 20, "directions": "orthogonal"}
    good = minimize(problem, diagnostics=True, mu=1e-6, **settings).rows[0]
    noisy = minimize(problem, diagnostics=True, mu=1e-14, **settings).rows[0]
    assert good["cosine"] == pytest.approx(1, abs=1e-6)
    assert good["unmoved"] == 0
    assert good["snr"] > 1e6 > 10 > noisy["snr"] / 100
    assert minimize(problem, diagnostics=True, mu=5e-17, **settings).rows[0]["unmoved"] > 0.2


def test_no_autograd_graph_is_built() -> None:
    weight = torch.ones(2, dtype=torch.float64, requires_grad=True)
    run = minimize(lambda x: (weight * x**2).sum(), x0=[1.0, 1.0], q=1, budget=5, L=2.0)
    assert not run.x.requires_grad
