"""A sampler of Optuna whose trials are the points of a Minimizer."""

from __future__ import annotations

import logging
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from ray import tune
from ray.tune.search.optuna import OptunaSearch

import zotune
from tests.asked import BUDGET, HIGH, LOW, asked_points, valley
from zotune.errors import ConfigError

START = {"x": -1.0, "y": 2.0}


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial: optuna.Trial) -> float:
    return valley(trial.suggest_float("x", -2.0, 2.0), trial.suggest_float("y", -1.0, 3.0))


def made(**options: Any) -> optuna.Study:
    sampler = zotune.optuna.ZotuneSampler(budget=BUDGET, seed=0, **options.pop("settings", {}))
    study = optuna.create_study(sampler=sampler, **options)
    study.enqueue_trial(START)
    return study


def points(study: optuna.Study) -> list[list[float]]:
    return [[t.params["x"], t.params["y"]] for t in study.trials]


@pytest.mark.parametrize("settings", [{}, {"q": 2, "step": "constant", "eta": 1e-4}])
def test_the_trials_are_the_points_of_a_minimizer_bit_for_bit(settings: dict[str, Any]) -> None:
    study, asked = made(settings=settings), asked_points(list(START.values()), **settings)
    study.optimize(objective, n_trials=len(asked))
    assert points(study) == asked
    assert len(asked) <= BUDGET


def test_the_maximum_is_the_minimum_of_the_negative() -> None:
    study, asked = made(direction="maximize"), asked_points(list(START.values()))
    study.optimize(lambda trial: -objective(trial), n_trials=len(asked))
    assert points(study) == asked


def test_a_study_in_a_storage_goes_on_with_another_sampler_and_a_pickled_one(
    tmp_path: Path,
) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    made(storage=storage, study_name="mine")
    sampler: optuna.samplers.BaseSampler = zotune.optuna.ZotuneSampler(budget=BUDGET)
    for number in range(10):
        if number % 2:
            sampler = pickle.loads(pickle.dumps(sampler))
        else:
            sampler = zotune.optuna.ZotuneSampler(budget=BUDGET)
        study = optuna.load_study(storage=storage, study_name="mine", sampler=sampler)
        study.optimize(objective, n_trials=2)
        study.ask({"x": optuna.distributions.FloatDistribution(-2.0, 2.0)})  # never told: killed
    done = [t for t in study.trials if t.state == optuna.trial.TrialState.COMPLETE]
    assert [[t.params["x"], t.params["y"]] for t in done] == asked_points(list(START.values()))[:20]


def test_failed_and_pruned_trials_reject_their_points() -> None:
    def fails(trial: optuna.Trial) -> float:
        value = objective(trial)
        if trial.number % 9 == 4:
            raise optuna.TrialPruned
        if trial.number % 9 == 7:
            raise FloatingPointError
        return value

    study, number = made(), 0
    study.optimize(fails, n_trials=BUDGET, catch=(FloatingPointError,))
    m = zotune.Minimizer(list(START.values()), budget=BUDGET, bounds=(LOW, HIGH))
    asked = []
    while not m.done:
        for i, x in zip(m.ask().ids, np.asarray(m.ask()), strict=True):
            asked.append(x.tolist())
            m.tell([math.inf if number % 9 in (4, 7) else valley(*x)], [i])
            number += 1
    assert points(study)[: len(asked)] == asked


def test_integers_and_steps_are_rounded_and_categories_are_random() -> None:
    def mixed(trial: optuna.Trial) -> float:
        lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
        width = trial.suggest_int("width", 8, 64, step=4)
        depth = trial.suggest_int("depth", 1, 8, log=True)
        drop = trial.suggest_float("drop", 0.1, 0.5, step=0.05)
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return (math.log10(lr) + 2) ** 2 + (width - 40) ** 2 / 100 + depth + drop + (kind == "a")

    sampler = zotune.optuna.ZotuneSampler(budget=60, seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(mixed, n_trials=60)
    assert {t.params["kind"] for t in study.trials} == {"a", "b"}
    assert {(t.params["width"] - 8) % 4 for t in study.trials} == {0}
    assert study.best_value < study.trials[0].value


def test_trials_that_cannot_wait_are_random_and_said_to_be_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    study = made()
    study.optimize(objective, n_trials=1)
    space: dict[str, optuna.distributions.BaseDistribution] = {
        "x": optuna.distributions.FloatDistribution(-2.0, 2.0),
        "y": optuna.distributions.FloatDistribution(-1.0, 3.0),
    }
    with caplog.at_level(logging.WARNING, "zotune"):
        trials = [study.ask(space) for _ in range(9)]
    (said,) = [record.getMessage() for record in caplog.records]
    assert "a sampler cannot wait" in said
    for trial in trials:
        study.tell(trial, valley(trial.params["x"], trial.params["y"]))
    study.optimize(objective, n_trials=BUDGET)
    asked = asked_points(list(START.values()))
    assert [point for point in points(study) if point in asked][: len(asked)] == asked


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of Ray, for what Optuna has renamed
def test_tune_reaches_it_through_its_own_optuna_search(tmp_path: Path) -> None:
    sampler = zotune.optuna.ZotuneSampler(budget=BUDGET)
    space = {"x": tune.uniform(-2.0, 2.0), "y": tune.uniform(-1.0, 3.0)}
    search = OptunaSearch(sampler=sampler, points_to_evaluate=[START])
    search.set_search_properties("loss", "min", space)
    asked = asked_points(list(START.values()))
    for number, point in enumerate(asked):
        config = search.suggest(str(number))
        assert [config["x"], config["y"]] == point
        if number == 20:
            search.save(str(tmp_path / "state"))
            search.restore(str(tmp_path / "state"))
        search.on_trial_complete(str(number), {"loss": valley(**config), "training_iteration": 1})


def test_the_end_of_the_budget_is_said(caplog: pytest.LogCaptureFixture) -> None:
    study = made()
    with caplog.at_level(logging.WARNING, "zotune"):
        study.optimize(objective, n_trials=BUDGET + 3)
    assert [r.getMessage()[:32] for r in caplog.records] == ["the budget of 40 trials is spent"]


def test_what_cannot_be_done_is_refused_in_one_line() -> None:
    study = optuna.create_study(
        directions=["minimize", "minimize"], sampler=zotune.optuna.ZotuneSampler(budget=9)
    )
    with pytest.raises(ConfigError, match="has one objective, got 2"):
        study.ask({"x": optuna.distributions.FloatDistribution(0.0, 1.0)})
    with pytest.raises(ConfigError, match="takes no bounds: they are those of the parameters"):
        zotune.optuna.ZotuneSampler(budget=9, bounds=(0, 1))


def test_the_start_is_the_first_trial_with_a_finite_value() -> None:
    study, asked = made(), asked_points(list(START.values()))
    study.optimize(lambda trial: objective(trial) * math.inf, n_trials=1)
    study.enqueue_trial(START)
    study.optimize(objective, n_trials=len(asked))
    assert points(study)[1:] == asked
