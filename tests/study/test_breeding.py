"""What a population may change, and how far."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from zotune.core.settings import place
from zotune.study import load_study
from zotune.study.breeding import population
from zotune.study.totals import left_out


def test_the_shipped_population_stays_within_its_space_however_often_it_changes() -> None:
    from ray.tune.schedulers.pbt import _explore

    study = load_study("population")
    bred = population(study, Path("nowhere"))
    config = {"eta": 8.0, "q": 1, "update": "sgd"}
    random.seed(0)
    seen = set()
    for _ in range(300):
        config, _ = _explore(
            config, bred._hyperparam_mutations, 0.25, (0.8, 1.2), bred._custom_explore_fn
        )
        assert 0.5 <= config["eta"] <= 8.0
        study.configuration({key: config[key] for key in study.axes})  # refuses what cannot be
        seen.add((config["q"], config["update"]))
    assert {q for q, _ in seen} == {1, 4, 16, 64}
    assert {update for _, update in seen} == {"sgd", "momentum", "nesterov"}
    assert place({}, config) == config


def test_trials_that_wait_for_others_go_on_when_those_have_ended() -> None:
    from ray.tune.experiment import Trial

    bred = population(load_study("population"), Path("nowhere"))
    waiting, running = Trial("one", stub=True), Trial("other", stub=True)
    waiting.status, running.status = Trial.PAUSED, Trial.RUNNING
    bred._trial_state[waiting] = SimpleNamespace(last_train_time=bred._next_perturbation_sync)
    controller: Any = SimpleNamespace(
        get_live_trials=lambda: [waiting], get_trials=lambda: [waiting]
    )
    assert bred.choose_trial_to_run(controller) is waiting
    bred._trial_state[running] = SimpleNamespace(last_train_time=0)
    bred._trial_state[waiting].last_train_time = bred._next_perturbation_sync
    controller.get_live_trials = lambda: [waiting, running]
    assert bred.choose_trial_to_run(controller) is None


def test_trials_of_a_population_that_have_moved_were_begun() -> None:
    study = load_study("population")
    moved = [{"eta": 1.0, "q": 4, "update": "sgd"}] * 7
    assert left_out(study, moved) == ["trial 8"]
