"""Plans: the paper's answers, the other way of counting, honesty, and errors."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from rich.console import Console

from tests.instrument import minimize, plan
from zotune.cli import main
from zotune.core.budget import COUNTS, Budget, Ledger
from zotune.core.differences import DIFFERENCES, get_difference
from zotune.directions import DIRECTIONS
from zotune.errors import ConfigError, UnknownNameError
from zotune.estimators import ESTIMATORS, Estimator
from zotune.loop import Loop
from zotune.objectives import build_problem
from zotune.objectives.quadratic import Quadratic
from zotune.study import load_study
from zotune.theory import (
    REGIMES,
    Allocation,
    Estimation,
    convex_bound,
    least_stochastic_bound,
    log_contraction,
    method,
)
from zotune.theory.plan_table import render
from zotune.theory.planning import Plan

REGIME = pytest.mark.parametrize("regime", list(REGIMES))
COUNT = pytest.mark.parametrize("count", COUNTS)
DIFFERENCE = pytest.mark.parametrize("difference", list(DIFFERENCES))


def sizes(found: Plan) -> dict[str, int]:
    """The best block of each estimator."""
    return {flat.estimator: flat.q for flat in found.flatness}


@REGIME
def test_projection_with_full_blocks_is_planned_where_the_paper_says_so(regime: str) -> None:
    found = plan(1000, 20_000, regime=regime)
    assert (found.estimator, found.q, found.steps) == ("align", 1000, 20)


@pytest.mark.parametrize("regime", ["strongly-convex", "convex", "nonconvex"])
def test_averaging_gets_one_direction_where_directions_are_charged(regime: str) -> None:
    assert sizes(plan(1000, 20_000, regime=regime))["avg"] == 1


@pytest.mark.parametrize("dim", [100, 1000, 10_000])
def test_averaging_gets_the_root_of_the_dimension_where_evaluations_are(dim: int) -> None:
    found = plan(dim, 1_000_000, regime="convex", count="evaluations")
    assert sizes(found)["avg"] == round(math.sqrt(dim + 1))
    assert found.estimator == "align"


def blocks_of_a_run(q: int, budget: Budget) -> Allocation:
    """Block by block, as the loop spends it."""
    ledger, blocks = Ledger(), []
    while now := budget.block(ledger, q):
        ledger = ledger.charge(now, budget.difference.evaluations(now))
        blocks.append(now)
    return Allocation.of(blocks)


def rate_of(regime: str, how: Estimation, blocks: Allocation) -> float:
    if regime == "strongly-convex":
        return -log_contraction(how, blocks, condition=3.0)
    if regime == "stochastic":
        return 1 / least_stochastic_bound(how, blocks, L=1.0, distance=1.0, noise=1.0)[1]
    return 1 / convex_bound(how, blocks, L=1.0, distance=1.0, gap=0.0)


@pytest.mark.parametrize("directions", ["gaussian", "sphere", "rademacher"])
@pytest.mark.parametrize(
    ("dim", "budget"), [(3, 5), (5, 9), (5, 14), (7, 11), (60, 95), (200, 433)]
)
@pytest.mark.parametrize("regime", ["strongly-convex", "convex", "stochastic"])
@COUNT
def test_no_block_does_better_with_just_this_budget(
    count: str, regime: str, dim: int, budget: int, directions: str
) -> None:
    """Few steps have to fill the budget, which the best block of a long run need not do."""
    found = plan(dim, budget, regime=regime, count=count, directions=directions, condition=3.0)
    limit = Budget(budget, count, get_difference("forward"))
    for flat in found.flatness:
        how = method(flat.estimator, dim, directions)
        rates = {
            q: rate_of(regime, how, blocks_of_a_run(q, limit))
            for q in range(1, limit.block(Ledger(), dim) + 1)
        }
        assert rates[flat.q] == pytest.approx(max(rates.values()), rel=1e-8)


def test_two_directions_fill_five_evaluations_better_than_one() -> None:
    """Steps of 3 and 2 evaluations in place of two of 2, which leave one: a fifth of the rate."""
    found = plan(3, 5, regime="convex", count="evaluations", directions="sphere")
    assert sizes(found)["avg"] == 2


def test_the_rates_of_the_paper_are_planned() -> None:
    known = {"regime": "strongly-convex", "condition": 50.0}
    bounds = {(o.estimator, o.q): o.bound for o in plan(1000, 20_000, **known).alternatives}  # type: ignore[arg-type]
    assert bounds["avg", 1] == pytest.approx((1 - 1 / (50 * 1002)) ** 20_000)
    assert bounds["align", 1000] == pytest.approx((1 - 1 / 50) ** 20)
    nonconvex = plan(1000, 20_000, regime="nonconvex")
    assert nonconvex.bound == pytest.approx(2 * 1000 / 20_000)
    assert nonconvex.unit == "L (f(x_0) − f*)"


def test_where_directions_are_orthogonal_averaging_is_projection() -> None:
    found = plan(1000, 20_000, regime="convex", directions="orthogonal")
    bounds = {(o.estimator, o.q): o.bound for o in found.alternatives}
    for q in (1, 10, 100, 1000):
        assert bounds["avg", q] == pytest.approx(bounds["align", q])


@pytest.mark.parametrize("directions", list(DIRECTIONS))
@DIFFERENCE
@COUNT
@REGIME
def test_the_best_option_is_the_best_of_its_table(
    regime: str, count: str, difference: str, directions: str
) -> None:
    found = plan(60, 500, regime=regime, count=count, difference=difference, directions=directions)
    assert replace(found.best, share=found.alternatives[0].share) in [
        replace(option, share=found.alternatives[0].share) for option in found.alternatives
    ]
    assert found.bound <= min(o.bound for o in found.alternatives) * (1 + 1e-9)
    assert max(o.share for o in found.alternatives) == pytest.approx(1)
    with_theory = {name for name, entry in ESTIMATORS.items() if entry.moments}
    assert {o.estimator for o in found.alternatives} == with_theory


@DIFFERENCE
@COUNT
def test_a_run_does_what_was_planned(count: str, difference: str) -> None:
    found = plan(20, 107, regime="convex", count=count, difference=difference, L=4.0)
    for option in found.alternatives:
        run = minimize(
            Quadratic(dim=20, condition=4.0),
            estimator=option.estimator,
            q=option.q,
            budget=107,
            count=count,
            difference=difference,
            step="constant",
            eta=option.step,
            mu=1e-3,
        )
        ledger = run.state.ledger
        assert (run.state.steps, ledger.queries) == (option.steps, option.queries)
        assert ledger.evaluations == option.evaluations
        theory = minimize(
            Quadratic(dim=20, condition=4.0),
            estimator=option.estimator,
            q=option.q,
            budget=107,
            count=count,
            difference=difference,
            mu=1e-3,
        )
        assert torch.allclose(theory.x, run.x, rtol=1e-9)


def test_the_guarantee_holds_for_runs() -> None:
    quadratic = Quadratic(dim=20, condition=4.0)
    found = plan(20, 105, regime="strongly-convex", condition=4.0, L=quadratic.L)
    for option in found.alternatives:
        run = minimize(quadratic, estimator=option.estimator, q=option.q, budget=105, replicates=20)
        assert run.rows[-1]["gap"] <= option.bound * run.rows[0]["gap"]


def test_a_step_is_a_multiple_of_one_over_L_unless_L_is_given() -> None:
    unknown, known = plan(100, 1000, regime="convex"), plan(100, 1000, regime="convex", L=8.0)
    assert (unknown.step, unknown.step_unit) == (1.0, "1/L")
    assert (known.step, known.step_unit) == (1 / 8, "")
    assert known.bound == unknown.bound
    assert any("L is not given" in note for note in unknown.notes)
    assert not any("L is not given" in note for note in known.notes)


@COUNT
@REGIME
def test_flatness_says_how_far_q_may_be_from_the_best(regime: str, count: str) -> None:
    found = plan(300, 6000, regime=regime, count=count)
    options = {(o.estimator, o.q): o for o in found.alternatives}
    assert found.flatness[0].estimator == found.estimator
    assert found.flatness[0].q == found.q
    for flat in found.flatness:
        best = options[flat.estimator, flat.q]
        assert flat.low <= flat.q <= flat.high
        for (name, q), option in options.items():
            if name == flat.estimator and flat.low <= q <= flat.high:
                assert option.rate >= (1 - flat.within) * best.rate
            if name == flat.estimator and not 0.9 * flat.low <= q <= 1.1 * flat.high:
                assert option.rate < (1 - flat.within) * best.rate


def test_a_factor_three_costs_little_where_evaluations_are_charged() -> None:
    found = plan(1000, 20_000, regime="nonconvex", count="evaluations")
    flat = {f.estimator: f for f in found.flatness}["avg"]
    assert flat.low <= 32 / 3 < 32 * 3 <= flat.high


def test_projection_is_indifferent_where_the_paper_says_so() -> None:
    flat = plan(1000, 20_000, regime="convex").flatness[0]
    assert (flat.low, flat.high) == (1, 1000)


def test_noise_lowers_the_first_step() -> None:
    quiet, loud = (plan(100, 5000, regime="stochastic", noise=noise) for noise in (0.0, 30.0))
    assert quiet.step == 0.25
    assert loud.step < 0.05
    assert loud.bound > quiet.bound


def test_a_budget_below_the_dimension_is_one_block() -> None:
    found = plan(1000, 500, regime="strongly-convex")
    assert (found.q, found.steps) == (500, 1)
    assert max(o.q for o in found.alternatives) == 500
    charged = plan(1000, 500, regime="strongly-convex", count="evaluations")
    assert (charged.q, charged.best.evaluations) == (499, 500)


def test_the_smallest_budget_has_a_plan() -> None:
    found = plan(10, 2, regime="convex", count="evaluations", difference="central")
    assert (found.q, found.steps, found.best.evaluations) == (1, 1, 2)


def test_a_single_step_is_said_to_promise_little() -> None:
    said = "after one step the bound speaks of the start alone"
    for regime in ("nonconvex", "stochastic"):
        assert any(said in note for note in plan(1000, 1, regime=regime).notes)
        assert not any(said in note for note in plan(1000, 5000, regime=regime).notes)
    assert not any(said in note for note in plan(1000, 1, regime="convex").notes)


@COUNT
@REGIME
def test_whoever_has_central_differences_is_not_told_to_take_them(regime: str, count: str) -> None:
    found = plan(100, 2000, regime=regime, count=count, difference="central")
    caution = next(note for note in found.notes if "q ≤ 90" in note)
    assert caution.endswith("magnifies rounding: prefer orthogonal directions, or q ≤ 90")
    assert not any("forward" in said for said in (*found.assumptions, *found.notes))
    assert any("2q with central differences" in said for said in found.assumptions)


@DIFFERENCE
def test_one_direction_alone_is_solved_for_without_a_caution(difference: str) -> None:
    notes = plan(1, 5, difference=difference).notes
    assert not any("solving for" in note for note in notes)


def test_an_optimum_of_one_block_is_said_in_one_number() -> None:
    assert (
        "align with q = 1 only, align-diag with q = 1 only, avg with q = 1 only"
        in (plan(1, 5, regime="convex").notes[0])
    )


def test_L_is_said_to_be_estimated_only_where_a_run_does_it() -> None:
    said = "L is not given"
    theory, decay = (
        next(note for note in plan(10, 100, regime=regime).notes if said in note)
        for regime in ("convex", "stochastic")
    )
    assert "estimates it, and takes that from the budget" in theory
    assert "a run estimates no L for steps that decay, and wants the first as eta" in decay


@pytest.mark.parametrize("directions", list(DIRECTIONS))
def test_only_random_signs_are_said_to_depend_on_each_other(directions: str) -> None:
    notes = "\n".join(plan(3, 12, regime="convex", directions=directions).notes)
    depend = "align counts on 2.25 independent ones of 3" in notes
    assert depend == (directions == "rademacher")
    assert "depend on each other" not in "\n".join(plan(40, 20, directions="rademacher").notes)


@pytest.mark.parametrize("dim", [2, 3, 4, 6])
def test_the_guarantee_holds_for_random_signs_in_few_dimensions(dim: int) -> None:
    quadratic = Quadratic(dim=dim, condition=1.1)
    known: dict[str, Any] = {"regime": "strongly-convex", "condition": 1.1, "L": quadratic.L}
    found = plan(dim, 2 * dim, **known, directions="rademacher")
    for option in found.alternatives:
        run = minimize(
            quadratic,
            estimator=option.estimator,
            q=option.q,
            budget=2 * dim,
            directions="rademacher",
            replicates=400,
        )
        assert run.rows[-1]["gap"] <= option.bound * run.rows[0]["gap"]


@pytest.mark.parametrize(
    ("options", "cautious"),
    [({}, True), ({"directions": "orthogonal"}, False), ({"directions": "coordinate"}, False)],
)
def test_square_blocks_come_with_a_caution(options: dict[str, str], cautious: bool) -> None:
    notes = plan(1000, 20_000, regime="convex", **options).notes  # type: ignore[arg-type]
    assert any("q ≤ 900" in note for note in notes) is cautious


@REGIME
def test_assumptions_are_said(regime: str) -> None:
    text = "\n".join(plan(100, 1000, regime=regime, condition=7.0, noise=3.0).assumptions)
    assert "mu → 0" in text
    assert ("L/γ = 7" in text) == (regime == "strongly-convex")
    assert ("σ = 3 L" in text) == (regime == "stochastic")


@DIFFERENCE
@COUNT
def test_what_is_charged_is_said(count: str, difference: str) -> None:
    text = "\n".join(plan(100, 1000, count=count, difference=difference).assumptions)
    assert ("charged every call" in text) == (count == "evaluations")
    assert ("q + 1" in text) == (difference == "forward")


@REGIME
def test_the_command_tunes_the_step_beside_q(regime: str) -> None:
    found = plan(1000, 20_000, regime=regime, count="evaluations", directions="sphere")
    assert any("tuning the step" in note for note in found.notes)
    words = shlex.split(found.command)
    assert words[:3] == ["zotune", "run", f"{regime}-tuned"]
    settings = dict(word.split("=") for word in words[4::2])
    assert settings["problem.dim"] == "1000"
    assert settings["budget"] == "20000"
    assert settings["count"] == "evaluations"
    assert settings["directions"] == "sphere"
    assert "difference" not in settings
    assert {*sizes(found).values()} <= {*json.loads(settings["space.q"])}
    assert len(load_study(words[2], settings=words[4::2]).space["eta"]) > 2


@pytest.mark.parametrize("dim", [1, 2, 3])
@DIFFERENCE
@COUNT
@REGIME
def test_the_command_is_a_study_of_which_every_trial_can_run(
    regime: str, count: str, difference: str, dim: int
) -> None:
    for budget in (2, 3, 7) if count == "evaluations" else (1, 3):
        found = plan(dim, budget, regime=regime, count=count, difference=difference)
        words = shlex.split(found.command)
        study = load_study(words[2], settings=words[4::2])
        assert not study.skipped
        objective = build_problem(study.problem)
        for q in study.space["q"]:
            loop = Loop(study.configuration(study.trials[0] | {"q": q}), objective)
            assert loop.status(loop.step(loop.init())) in ("running", "exhausted")


@pytest.mark.parametrize(
    ("dim", "budget", "size"),
    [
        (1, 5, ("2", "10")),
        (2, 5, ("2", "5")),
        (1000, 20_000, ("1000", "20000")),
        (5_000, 20_000, ("1000", "4000")),
        (10**6, 5, ("1000", "1000")),
        (10**6, 10**12, ("1000", "1000000")),
        (10, 10**9, ("10", "1000000")),
    ],
)
def test_the_command_has_a_size_that_ends_and_says_so(
    dim: int, budget: int, size: tuple[str, str]
) -> None:
    found = plan(dim, budget, regime="nonconvex")
    words = shlex.split(found.command)
    settings = dict(word.split("=") for word in words[4::2])
    assert (settings["problem.dim"], settings["budget"]) == size
    assert not load_study(words[2], settings=words[4::2]).skipped
    other = f"with d = {size[0]} and a budget of {size[1]}"
    assert (other in found.notes[-1]) == (size != (str(dim), str(budget)))


@REGIME
def test_a_plan_is_json(regime: str) -> None:
    found = plan(1000, 20_000, regime=regime)
    stored = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert stored["best"]["q"] == 1000
    assert stored["regime"] == regime
    assert len(stored["alternatives"]) == len(found.alternatives)
    assert stored["flatness"][0]["estimator"] == "align"


def text_of(found: Plan, width: int = 100) -> str:
    out = StringIO()
    Console(width=width, file=out, color_system=None).print(render(found))
    return out.getvalue()


def test_a_plan_is_shown_with_its_table_and_its_reasons() -> None:
    found = plan(1000, 20_000, regime="strongly-convex")
    text = text_of(found, width=400)
    assert "align with q = 1000: 20 steps of 1 / L" in text
    assert "≤ 0.8179 · (f(x_0) − f*)" in text
    for said in (*found.assumptions, *found.notes):
        assert said in text
    assert sum(line.strip().startswith("avg ") for line in text.splitlines()) == 4


def test_a_plan_leads_with_what_loses_nothing_and_with_what_it_takes() -> None:
    """The bound likes one step with q = 2999 best, and nobody would take one step."""
    found = plan(50_000, 3000, count="evaluations")
    assert (found.q, found.steps) == (2999, 1)
    first, takes = found.advice
    assert first == (
        "Use align with any q from 19 to 2999: they lose at most 5% of the rate. "
        "Begin with q = 200, 15 steps."
    )
    assert takes.startswith("A block of directions takes 80 MB; 3,000 calls of f take 50 minutes")
    assert found.own_study == "zotune init mine --function FILE.py:f --dim 50000"
    text = text_of(found, width=400)
    assert text.startswith(first)
    assert found.own_study in text


def test_no_block_is_advised_that_comes_with_a_caution() -> None:
    """Solving for a full Gaussian block magnifies errors: the note says so, the advice follows."""
    found = plan(1000, 20_000)
    assert any("q ≤ 900" in note for note in found.notes)
    assert found.advice[0].endswith("Begin with q = 500, 40 steps.")
    assert "q = 1000, 20 steps" in plan(1000, 20_000, directions="orthogonal").advice[0]


def test_the_clock_is_told_where_a_second_a_call_would_be_supposed() -> None:
    question = {"dim": 1000, "budget": 20_000}
    asked = ["plan", *(f"--{key}={value}" for key, value in question.items())]
    done = CliRunner().invoke(main, [*asked, "--workers", "8", "--seconds-per-query", "5"])
    told = " ".join(done.output.split())
    assert "if each takes a second" not in told
    lead, _, _ = told.partition("The bound itself")
    assert "By the clock, with 8 workers and 5 s a call of f, align with q = 999" in lead
    assert "the budget takes 3.5 hours, workers idle for 0%" in lead
    assert "if each takes a second" in " ".join(CliRunner().invoke(main, asked).output.split())


def test_a_budget_of_too_few_steps_is_said_to_be_so() -> None:
    assert any("can hardly follow a function" in said for said in plan(1000, 1500).advice) is False
    few = plan(10, 12, count="evaluations", regime="strongly-convex")
    assert any("can hardly follow a function" in said for said in few.advice)


def test_the_shown_command_can_be_copied() -> None:
    """No blanks after a backslash, and the same words, on a narrow terminal too."""
    found = plan(1000, 20_000, regime="stochastic", count="evaluations")
    shown = text_of(found, width=60).split("To find out\n")[1]
    assert shlex.split(shown.replace("\\\n", "")) == shlex.split(found.command)
    assert "the first of 0.25 / L" in text_of(found)


def test_a_bound_too_small_for_a_float_is_shown_as_a_power() -> None:
    found = plan(10, 10**6, regime="strongly-convex", condition=2.0)
    assert found.bound == 0.0
    assert "e^-6.931e4" in text_of(found)


@pytest.mark.parametrize(
    ("dim", "budget"), [(7, 10**9), (10**6, 3 * 10**9), (6 * 10**8, 10**12), (999_999, 987_654_321)]
)
@COUNT
@REGIME
def test_large_numbers_are_readable_in_eighty_columns(
    regime: str, count: str, dim: int, budget: int
) -> None:
    found = plan(dim, budget, regime=regime, count=count)
    text = text_of(found, width=80)
    assert "…" not in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("align", "avg"))]
    table = rows[-len(found.alternatives) :]  # below the advice
    assert len(table) == len(found.alternatives)
    for shown, option in zip(table, found.alternatives, strict=True):
        exact = (option.q, option.steps, option.queries, option.evaluations)
        assert [float(n) for n in shown[1:5]] == pytest.approx(exact, rel=5e-3)


def test_one_step_is_not_steps() -> None:
    assert "align with q = 1: 1 step of 1 / L" in text_of(plan(1000, 1, regime="convex"))


def test_of_plans_that_promise_the_same_one_with_some_steps_is_taken() -> None:
    assert (plan(50, 10, regime="convex").q, plan(50, 10, regime="convex").steps) == (1, 10)
    large = plan(600_000_000, 20_000, regime="nonconvex")
    assert (large.estimator, large.q, large.steps) == ("align", 1000, 20)
    assert plan(1000, 20_000, regime="strongly-convex").q == 1000
    assert "1 step of 0.25 / L" in text_of(plan(1000, 500, regime="stochastic", noise=0.0))


def test_a_rate_that_rounds_to_nothing_is_not_shown_as_nothing() -> None:
    text = text_of(plan(10**6, 3 * 10**9, regime="stochastic"))
    assert "<1%" in text
    assert " 0%" not in text


def test_large_dimensions_and_budgets_are_planned_at_once() -> None:
    found = plan(600_000_000, 10**12, regime="stochastic", count="evaluations")
    assert found.estimator == "align"


def test_estimators_without_theory_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    mute = Estimator("mute", "", "", lambda v, block: v)
    monkeypatch.setitem(ESTIMATORS._entries, "mute", mute)
    found = plan(100, 1000, regime="convex")
    assert "mute" not in {o.estimator for o in found.alternatives}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, r"dim must be a whole number of at least 1, got 0"),
        ({"budget": 2.5}, r"budget must be a whole number of at least 1, got 2\.5"),
        ({"L": 0.0}, r"L must be a finite number above 0, got 0\.0"),
        ({"L": float("inf")}, r"L must be a finite number above 0, got inf"),
        ({"condition": 1.0}, r"condition must be a finite number above 1, got 1\.0"),
        ({"noise": -1.0}, r"noise must be a finite number of at least 0, got -1\.0"),
        ({"noise": float("nan")}, r"noise must be a finite number of at least 0, got nan"),
        (
            {"budget": 1, "count": "evaluations"},
            r"budget must cover one step \(forward with q=1\): that needs 2 evaluations, "
            r"got budget=1",
        ),
    ],
)
def test_bad_numbers_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(**({"dim": 10, "budget": 100} | options))


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("regime", "non-convex", "nonconvex"),
        ("count", "evaluation", "evaluations"),
        ("difference", "centre", "central"),
        ("directions", "gaussan", "gaussian"),
    ],
)
def test_unknown_names_are_refused_with_a_hint(key: str, value: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"{key} '{value}'.*did you mean '{hint}'\?"):
        plan(10, 100, **{key: value})  # type: ignore[arg-type]


def test_planning_does_not_wait_for_torch() -> None:
    code = (
        "import sys; from rich.console import Console\n"
        "from zotune.theory.plan_table import render; "
        "from zotune.theory.planning import plan; "
        "Console(quiet=True).print(render(plan(1000, 20000, regime='stochastic'))); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("q", [1, 10, 100])
def test_under_acceleration_the_convex_bound_of_projections_hardly_depends_on_q(q: int) -> None:
    found = plan(100, 100_000, regime="convex", update="nesterov")
    bounds = {o.q: o.bound for o in found.alternatives if o.estimator == "align"}
    assert bounds[q] == pytest.approx(2 * 100**2 / 100_000**2, rel=0.01)
    plain = {o.q: o.bound for o in plan(100, 100_000, regime="convex").alternatives}
    assert bounds[q] < plain[q] / 100
    assert any("accelerated method without restarts" in note for note in found.notes)


@pytest.mark.parametrize(
    ("update", "regime"), [("adam", "convex"), ("nesterov", "nonconvex"), ("lbfgs", "stochastic")]
)
def test_where_no_rate_of_an_update_is_proven_the_plan_is_plain_descent_s_and_says_so(
    update: str, regime: str
) -> None:
    found = plan(100, 1000, regime=regime, update=update)
    assert found.best == plan(100, 1000, regime=regime).best
    assert any(f"no rate of update {update} is proven here" in note for note in found.notes)


def test_an_update_that_nobody_knows_is_refused_by_a_plan() -> None:
    with pytest.raises(UnknownNameError, match="'nesterow' is not known"):
        plan(10, 100, update="nesterow")
