"""What a population may change, and how far."""

from __future__ import annotations

import random
from pathlib import Path

from zotune.study import load_study
from zotune.study.breeding import population
from zotune.study.points import place


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
