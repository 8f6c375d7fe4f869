"""Studies without Ray: their points, what is left out, and what Tune is told."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ray import cloudpickle
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler

import zotune
from tests.instrument import plain_study
from zotune.study import Study, load_study
from zotune.study.points import Distribution
from zotune.study.scheduling import Within, scheduler
from zotune.study.smoke import smoked
from zotune.study.studyfile import StudyError, parse_document, shipped_studies
from zotune.study.tuning import Plateau, TargetLoss, param_space, stopper
from zotune.theory import REGIMES
from zotune.theory.planning import plan

PAIRS = [(1, 0), (1, 1), (2, 0), (2, 1)]
"""Of q and of the problem's seed."""

NOWHERE = Path("nowhere")
"""The folder of a launch that is never run."""


def study(**changes: Any) -> Study:
    settings: dict[str, Any] = {
        "name": "mine",
        "problem": {"name": "quadratic", "dim": 30},
        "budget": 300,
        "space": {"estimator": ["avg", "align"], "q": [1, 10]},
    }
    return plain_study(**(settings | changes))


def refused(**changes: Any) -> list[str]:
    with pytest.raises(StudyError) as caught:
        study(**changes)
    return caught.value.problems


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("q", {"loguniform": [1, 10]}),
        ("q", {"uniform": [1, 9]}),
        ("problem.dim", {"uniform": [2, 9]}),
    ],
)
def test_a_whole_number_is_not_drawn_with_a_fraction(key: str, written: dict[str, Any]) -> None:
    told = refused(space={key: written}, search=RANDOM)
    instead = "lograndint" if "loguniform" in written else "randint"
    assert any(f"{key} is a whole number" in line and f"use {instead}" in line for line in told)


def test_reports_that_come_again_after_a_kill_are_no_plateau() -> None:
    plateau = Plateau(3)
    losses = [5.0, 4.0, 3.0, 3.0]
    rows = [{"spent": 10 * at, "best_loss": loss} for at, loss in enumerate(losses)]
    again = [*rows, *rows[2:], {"spent": 40, "best_loss": 3.0}]
    assert not any(plateau("a", row) for row in again)
    assert plateau("a", {"spent": 50, "best_loss": 3.0})


def test_a_grid_runs_every_combination_once_with_the_first_key_fastest() -> None:
    assert study().trials == [
        {"estimator": "avg", "q": 1},
        {"estimator": "align", "q": 1},
        {"estimator": "avg", "q": 10},
        {"estimator": "align", "q": 10},
    ]
    assert study().size == 4


def test_blocks_that_the_dimension_or_the_budget_do_not_allow_are_left_out_with_a_reason() -> None:
    found = study(space={"estimator": ["avg", "align"], "q": [1, 100, 1000]})
    assert [str(skipped) for skipped in found.skipped] == [
        "align q=100: align needs q ≤ d, and d = 30",
        "avg q=1000: one step costs 1000 of a budget of 300 directions",
        "align q=1000: align needs q ≤ d, and d = 30",
    ]
    assert found.size == 3
    evaluations = study(count="evaluations", space={"q": [1, 29]}, budget=29)
    assert [s.reason for s in evaluations.skipped] == [
        "one step costs 30 of a budget of 29 evaluations"
    ]
    orthogonal = study(
        space={"q": [31]} | {"estimator": ["avg"], "directions": ["orthogonal", "sphere"]}
    )
    assert [s.point["directions"] for s in orthogonal.skipped] == ["orthogonal"]


def test_steps_that_a_searched_update_does_not_have_are_skipped_and_listed() -> None:
    space = {"update": ["sgd", "adam"], "step": ["auto", "theory"]}
    found = zotune.Study(name="s", problem="quadratic", budget=500, space=space, fixed={"q": 1})
    assert [str(s) for s in found.skipped] == [
        "adam step=theory: there is no theory of the step of adam"
    ]
    assert found.size == 3
    with pytest.raises(zotune.ZotuneError, match="step 'theory' is a factor of the estimate"):
        zotune.Study(
            name="s",
            problem="quadratic",
            budget=500,
            space={"update": ["sgd", "adam"]},
            fixed={"q": 1, "step": "theory"},
        )


def test_a_grid_of_which_nothing_is_left_is_refused() -> None:
    assert refused(space={"q": [301]}) == [
        "no combination can be run; q=301: align needs q ≤ d, and d = 30"
    ]
    assert refused(space={}, fixed={"q": 301}) == [
        "no combination can be run; align needs q ≤ d, and d = 30"
    ]


def test_the_paper_s_small_budget_leaves_the_full_block_out() -> None:
    small = load_study("strongly-convex-500")
    assert {s.point["q"] for s in small.skipped} == {1000}
    assert {p["q"] for p in small.trials} == {1, 10, 100, 500}


def test_an_option_of_the_problem_can_be_searched() -> None:
    found = study(space={"problem.condition": [1, 10], "problem.dim": [5, 20], "q": [10]})
    assert [p["problem.dim"] for p in found.trials] == [20, 20]
    assert found.configuration(found.trials[0]).problem == {
        "name": "quadratic",
        "dim": 20,
        "condition": 1,
    }


def test_replicates_as_trials_are_numbered() -> None:
    found = study(replicates=3, replicates_as="trials", space={"q": [1, 2]})
    assert found.size == 6
    assert found.trials[1] == {"q": 1, "replicate": 1}
    config = found.configuration(found.trials[1])
    assert (config.replicates, config.replicate) == (1, 1)
    assert refused(
        replicates_as="trials",
        space={"eta": {"uniform": [1, 2]}},
        search={"algorithm": "random", "trials": 2},
    ) == ["replicates as trials need search: {algorithm: grid}; use rows"]


RANDOM: dict[str, Any] = {"algorithm": "random", "trials": 5}


def test_random_search_has_so_many_trials_in_all_and_shares_its_draws() -> None:
    space = {"estimator": ["avg", "align"], "eta": {"loguniform": [0.1, 10]}}
    found = study(space=space, search=RANDOM)
    assert [p["estimator"] for p in found.trials] == ["avg", "align", "avg", "align", "avg"]
    etas = [p["eta"] for p in found.trials]
    assert etas[0] == etas[1] != etas[2] == etas[3]
    assert all(0.1 <= eta <= 10 for eta in etas)
    more = study(space=space, search=RANDOM | {"trials": 9})
    assert more.trials[:5] == found.trials
    assert study(space=space, search=RANDOM, seed=1).trials != found.trials


def test_search_and_space_must_fit_each_other() -> None:
    drawn = {"eta": {"uniform": [1, 2]}}
    assert refused(space=drawn) == [
        "a grid cannot draw eta; give a list, or {algorithm: random, trials: N}"
    ]
    assert refused(search={"trials": 3}) == ["a grid runs every combination once; leave trials out"]
    assert refused(space=drawn, search={"algorithm": "optuna"}) == [
        "optuna search needs trials, the total number of them"
    ]
    assert refused(search=RANDOM) == [
        "random search has nothing to draw; give a distribution, or use grid"
    ]
    assert refused(space=drawn | {"q": [1, 2]}, search={"algorithm": "optuna", "trials": 3}) == [
        "optuna takes no lists; use q: {choice: [1, 2]}"
    ]
    assert refused(space=drawn | {"q": list(range(1, 8))}, search=RANDOM) == [
        "trials must be at least 7, one for each combination of the lists, got 5"
    ]
    assert refused(space={"q": {"randint": [1, 31]}}, search=RANDOM) == [
        "q can be drawn too large: align needs q ≤ d, and d = 30; lower its upper end"
    ]
    assert refused(space={"q": list(range(1, 31)), "seed": [1]})[0].startswith("seed holds for")
    assert refused(space={"q": list(range(1, 301)), "eta": [k / 8 for k in range(1, 50)]}) == [
        "a grid has at most 10000 points, got 14700"
    ]


@pytest.mark.parametrize("kind", ["uniform", "loguniform", "randint", "lograndint"])
def test_samplers_stay_within_their_ends_and_reach_them(kind: str) -> None:
    distribution = Distribution(kind, (1, 4))
    rng = np.random.default_rng(0)
    drawn = [distribution.draw(rng) for _ in range(500)]
    assert 1 <= min(drawn) < 1.1
    assert 3.9 < max(drawn) <= 4
    assert all(isinstance(value, int) for value in drawn) == ("int" in kind)
    tunes = [distribution.domain().sample(random_state=rng) for _ in range(500)]
    assert (min(tunes) < 1.1, max(tunes) > 3.9) == (True, True)
    assert abs(np.mean(drawn) - np.mean(tunes)) < 0.2


def rungs(found: Study) -> list[float]:
    asha = scheduler(found, NOWHERE)
    assert isinstance(asha, ASHAScheduler)
    return sorted(milestone for milestone, _ in asha._brackets[0]._rungs)


@pytest.mark.parametrize("largest", [1, 10, 30])
@pytest.mark.parametrize("report_every", [None, 7, 25])
def test_asha_s_rungs_lie_on_report_points_and_no_step_jumps_over_one(
    largest: int, report_every: int | None
) -> None:
    found = study(
        scheduler="asha",
        report_every=report_every,
        space={"q": [1, largest][-2:]} if largest > 1 else {"q": [1]},
    )
    marks = rungs(found)
    assert marks
    assert all(mark % found.reports_at == 0 for mark in marks)
    assert marks[0] >= largest
    assert marks[-1] <= found.budget


def test_trials_that_agree_have_one_scheduler_also_after_pickling() -> None:
    found = scheduler(
        study(scheduler="asha", within=["problem.seed"], space={"q": [1], "problem.seed": [0, 1]}),
        NOWHERE,
    )
    assert isinstance(found, Within)
    found.set_search_properties("loss", "min")
    thawed = cloudpickle.loads(cloudpickle.dumps(found))
    trials = [SimpleNamespace(config={"q": q, "problem": {"seed": s}}) for q, s in PAIRS]
    groups = [thawed.of(trial) for trial in trials]
    assert [groups.index(group) for group in groups] == [0, 1, 0, 1]
    assert all(group._metric == "loss" for group in groups)


def test_smoke_compares_within_what_it_still_searches() -> None:
    large = study(
        scheduler="asha",
        within=["estimator", "problem.dim"],
        space={"estimator": ["avg", "align"], "eta": [1, 2], "problem.dim": [20, 30]},
    )
    assert smoked(large)["within"] == ["estimator"]
    assert Study(**smoked(large)).within == ["estimator"]


@pytest.mark.parametrize(
    ("space", "within", "message"),
    [
        ({"q": [1, 2], "eta": {"loguniform": [0.1, 1]}}, ["eta"], "eta is drawn, and no two"),
        ({"q": [1, 2], "eta": [1, 2]}, ["q", "eta"], "within names every searched setting"),
        ({"q": [1, 2]}, ["difference"], "within names searched settings, and 'difference' is not"),
    ],
)
def test_a_scheduler_must_have_something_to_compare(
    space: dict[str, Any], within: list[str], message: str
) -> None:
    search = {"algorithm": "random", "trials": 4} if "loguniform" in str(space) else {}
    with pytest.raises(StudyError, match=message):
        study(scheduler="asha", space=space, within=within, search=search)


@pytest.mark.parametrize("search", ["random", "optuna"])
def test_a_choice_is_a_group_as_a_list_is(search: str) -> None:
    space = {"q": {"choice": [1, 10]}, "eta": {"loguniform": [0.1, 1]}}
    found = study(
        scheduler="asha",
        space=space,
        within=["q"],
        search={"algorithm": search, "trials": 4},
    )
    groups = scheduler(found, NOWHERE)
    assert isinstance(groups, Within)
    groups.set_search_properties("loss", "min")
    of = [groups.of(Trial("__fake", config={"q": q, "eta": 0.5}, stub=True)) for q in (1, 10, 1)]
    assert of[0] is of[2] is not of[1]


def test_what_stops_besides_the_budget() -> None:
    assert not stopper(study(), NOWHERE)("a", {"loss": 0.0})
    target, plateau = TargetLoss(1.0), Plateau(2)
    assert [target("a", {"loss": loss}) for loss in (2.0, 1.0)] == [False, True]
    losses = [3.0, 2.0, 2.0, 1.0, 1.0, 1.0]
    stops = [plateau("a", {"spent": at, "best_loss": loss}) for at, loss in enumerate(losses)]
    assert stops == [False, False, False, False, False, True]
    both = stopper(study(stop={"loss": 1.0, "plateau": 2}), NOWHERE)
    assert both("a", {"spent": 1, "loss": 0.5, "best_loss": 0.5})


def test_tune_gets_the_whole_configuration() -> None:
    found = study(fixed={"mu": 1e-6, "step": "theory"}, seed=3, replicates=4)
    space = param_space(found)
    fixed = {k: v for k, v in space.items() if k not in found.space}
    assert fixed == {
        "problem": {"name": "quadratic", "dim": 30},
        "directions": "gaussian",
        "difference": "forward",
        "update": "sgd",
        "step": "theory",
        "points": 320,
        "budget": 300,
        "count": "directions",
        "replicates": 4,
        "seed": 3,
        "mu": 1e-6,
        "report_every": 18,
    }


OF_VECTORS = [
    name
    for name, text in sorted(shipped_studies().items())
    if parse_document(text).data["problem"]["name"] != "language-model"
]
"""The others are tried in ``tests/language``: they take models, and some of them downloads."""


@pytest.mark.parametrize("name", OF_VECTORS)
def test_every_study_has_a_question_and_runs_in_smoke_mode(name: str) -> None:
    full = load_study(name)
    small = full.smoke()
    assert full.question.endswith("?")
    assert small.name == f"{name}-smoke"
    assert small.size <= 24
    for point in (small.trials[0], small.trials[-1]):
        config = small.configuration(point).model_dump() | {"workers": 0}  # in this process
        assert zotune.minimize(config.pop("problem"), **config).status in ("exhausted", "diverged")


def test_smoke_shrinks_draws_too() -> None:
    drawn = study(
        problem="quadratic",
        budget=20_000,
        space={"q": {"lograndint": [1, 1000]}, "eta": {"loguniform": [1, 2]}},
        search={"algorithm": "optuna", "trials": 100},
    ).smoke()
    assert (drawn.budget, drawn.size, drawn.problem["dim"]) == (200, 4, 20)
    assert drawn.space["q"] == {"lograndint": [1, 20]}
    lifted = study(problem="quadratic", space={"q": {"randint": [50, 90]}}, search=RANDOM).smoke()
    assert lifted.space["q"] == {"choice": [20]}
    assert study(fixed={"q": 25}, space={"eta": [1, 2, 3]}).smoke().fixed["q"] == 20


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("count", ["directions", "evaluations"])
def test_the_command_of_a_plan_is_a_study_that_runs_every_point(regime: str, count: str) -> None:
    found = plan(700, 9000, regime=regime, count=count, difference="central", directions="sphere")
    words = shlex.split(found.command)
    assert words[:2] == ["zotune", "run"]
    asked = load_study(words[2], settings=words[4::2])
    assert not asked.skipped
    assert (asked.problem["dim"], asked.budget, asked.count) == (700, 9000, count)
    assert asked.config["difference"] == "central"
    assert asked.config["directions"] == "sphere"
    assert math.isclose(asked.size / len(asked.space["q"]), 2 * len(asked.space["eta"]))
