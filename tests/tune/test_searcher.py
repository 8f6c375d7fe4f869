"""A Tune searcher whose trials are the points of a Minimizer."""

from __future__ import annotations

import json
import logging
import math
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from ray.tune.search import ConcurrencyLimiter, Searcher

import zotune
from tests.asked import BUDGET, asked_points, valley
from tests.servers import wait_for
from tests.tune.conftest import QUIET
from zotune.errors import CheckpointError, ConfigError

SPACE = {"net": {"x": tune.uniform(-2.0, 2.0), "y": tune.uniform(-1.0, 3.0)}, "z": 7}
MIDDLE = [0.0, 1.0]


def loss(config: dict[str, Any]) -> float:
    return valley(config["net"]["x"], config["net"]["y"])


def searching(**options: Any) -> zotune.ZotuneSearch:
    told = {"metric": "loss", "mode": "min", "budget": BUDGET} | options
    return zotune.ZotuneSearch(told.pop("space", SPACE), **told)


def trials(
    search: Any, value: Callable[[dict[str, Any]], float] = loss, first: int = 0
) -> Iterator[dict[str, Any]]:
    """Drive a searcher one trial at a time, to its end."""
    for number in range(first, 1000):
        config = search.suggest(f"trial{number}")
        if config == Searcher.FINISHED:
            return
        search.on_trial_complete(f"trial{number}", {"loss": value(config)})
        yield config


@pytest.mark.parametrize("settings", [{}, {"q": 2, "step": "constant", "eta": 1e-4}, {"seed": 3}])
def test_the_trials_are_the_points_of_a_minimizer_bit_for_bit(settings: dict[str, Any]) -> None:
    asked = [[c["net"]["x"], c["net"]["y"]] for c in trials(searching(**settings))]
    assert asked == asked_points(**settings)
    assert len(asked) == BUDGET


def test_constants_of_the_space_and_nested_keys_arrive_in_every_trial() -> None:
    configs = list(trials(searching()))
    assert {c["z"] for c in configs} == {7}
    assert all(c.keys() == {"net", "z"} and c["net"].keys() == {"x", "y"} for c in configs)


def test_the_maximum_is_the_minimum_of_the_negative() -> None:
    up = list(trials(searching(mode="max"), lambda config: -loss(config)))
    assert up == list(trials(searching()))


def test_a_batch_runs_in_parallel_in_any_order_and_then_the_searcher_waits() -> None:
    search, points, number = searching(), [], 0
    while True:
        batch = {}
        while isinstance(config := search.suggest(f"trial{number}"), dict):
            batch[f"trial{number}"], number = config, number + 1
        if config == Searcher.FINISHED:
            break
        assert batch, "it waits only while trials are out"
        points += [[c["net"]["x"], c["net"]["y"]] for c in batch.values()]
        for trial in reversed(batch):
            search.on_trial_complete(trial, {"loss": loss(batch[trial])})
    assert points == asked_points()


def test_a_failed_trial_rejects_its_point_as_an_infinite_value_does() -> None:
    def told(fails: Callable[[zotune.ZotuneSearch, str], None]) -> list[dict[str, Any]]:
        search, configs = searching(), []
        for number in range(BUDGET):
            configs.append(search.suggest(str(number)))
            if number % 7 == 3:
                fails(search, str(number))
            else:
                search.on_trial_complete(str(number), {"loss": loss(configs[-1])})
        assert search.run.failed == len(range(3, BUDGET, 7))
        return configs

    by_error = told(lambda search, trial: search.on_trial_complete(trial, error=True))
    by_value = told(lambda search, trial: search.on_trial_complete(trial, {"loss": math.inf}))
    assert by_error == by_value
    assert told(lambda search, trial: search.on_trial_complete(trial, None)) == by_value


def test_a_search_whose_first_trial_fails_says_so_before_the_next() -> None:
    search = searching()
    search.suggest("first")
    search.on_trial_complete("first", error=True)
    with pytest.raises(ConfigError, match="the first trial, first, must have a finite loss, got a"):
        search.suggest("second")


def test_a_trial_that_a_scheduler_stops_early_rejects_its_point_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    search = searching()
    with caplog.at_level(logging.WARNING, "zotune"):
        for number in range(BUDGET):
            config, early = search.suggest(str(number)), number in (5, 9)
            length = 2 if early else 10
            search.on_trial_complete(
                str(number), {"loss": loss(config), "training_iteration": length}
            )
    assert search.run.failed == 2
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "trial 5 was stopped before others had ended, and its point is rejected" in said[0]


def test_a_trial_that_ends_by_itself_or_by_a_criterion_counts_however_short_it_is() -> None:
    search = zotune.ZotuneSearch()
    search.set_search_properties("loss", "min", SPACE, num_samples=BUDGET, stop={"loss": 1e6})
    by_itself = searching()
    for number in range(BUDGET):
        length = {"training_iteration": 1 + (7 * number) % 5, "done": True}
        config = by_itself.suggest(str(number))
        by_itself.on_trial_result(str(number), length)
        by_itself.on_trial_complete(str(number), {"loss": loss(config)} | length)
        config = search.suggest(str(number))
        search.on_trial_complete(str(number), {"loss": loss(config) + 1e6} | length)
    assert by_itself.run.failed == search.run.failed == 0


def test_the_transforms_are_those_of_the_domains() -> None:
    space = {
        "lr": tune.loguniform(1e-5, 1e-1),
        "width": tune.randint(8, 65),
        "depth": tune.lograndint(1, 9),
        "drop": tune.quniform(0.0, 0.5, 0.05),
        "batch": tune.qrandint(16, 128, 16),
    }
    search = searching(space=space, budget=60)

    def far(c: dict[str, Any]) -> float:
        return (math.log10(c["lr"]) + 2) ** 2 + (c["width"] - 20) ** 2 / 100 + c["drop"]

    configs = list(trials(search, far))
    assert len(configs) <= 60
    assert configs[0]["lr"] == pytest.approx(1e-3)
    for c in configs:
        assert 1e-5 <= c["lr"] <= 1e-1
        assert {type(c[key]) for key in ("width", "depth", "batch")} == {int}
        assert 8 <= c["width"] <= 64
        assert 1 <= c["depth"] <= 8
        assert c["batch"] % 16 == 0
        assert c["drop"] == pytest.approx(round(c["drop"] / 0.05) * 0.05)
    assert 3e-3 < search.best_config["lr"] < 3e-2
    assert far(search.best_config) == search.run.best_loss < far(configs[0])


def test_steps_that_do_not_divide_the_bounds_stay_inside() -> None:
    space = {"a": tune.qrandint(10, 50, 16), "b": tune.quniform(0.25, 1.0, 0.25)}
    seen = list(trials(searching(space=space), lambda c: c["a"] - 100 * c["b"]))
    assert {c["a"] for c in seen} <= {16, 32, 48}
    assert {c["b"] for c in seen} <= {0.25, 0.5, 0.75, 1.0}


def test_rounding_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "zotune"):
        list(trials(searching(space={"n": tune.randint(0, 9)}), lambda c: float(c["n"])))
    assert [record.getMessage()[:29] for record in caplog.records] == [
        "n: rounded to its steps in ea"
    ]


def test_the_search_begins_where_it_is_told() -> None:
    start = {"net": {"x": -1.5, "y": 2.0}}
    assert searching(start=start).suggest("a") == {"net": start["net"], "z": 7}
    with pytest.raises(ConfigError, match=r"start must have a value for each parameter .* got x$"):
        searching(start={"x": 1.0})
    with pytest.raises(ConfigError, match="net/x must start between -2 and 2, got 5"):
        searching(start={"net": {"x": 5, "y": 0}})


@pytest.mark.parametrize(
    ("space", "told"),
    [
        ({"a": tune.choice(["x", "y"])}, "a is a choice of 2 categories.*one search for each"),
        ({"a": tune.randn(0, 1)}, "a is Float by Normal.*give tune.uniform or tune.loguniform"),
        ({"a": tune.sample_from(lambda: 1)}, "a is Function by .*, and ZotuneSearch takes uniform"),
        ({"a": tune.grid_search([1, 2])}, "a is a grid, which ZotuneSearch does not take"),
        ({"a": tune.randint(3, 4)}, "a must have finite bounds with at least two values"),
        ({"a": 3.0}, "needs a space of tune.uniform"),
    ],
)
def test_what_is_no_range_of_numbers_is_refused_in_one_line(space: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        searching(space=space)
    assert "\n" not in str(error.value)


def test_what_is_missing_or_cannot_be_done_is_said() -> None:
    with pytest.raises(ConfigError, match=r"needs a space of tune\.uniform"):
        zotune.ZotuneSearch(metric="loss", mode="min").suggest("a")
    with pytest.raises(ConfigError, match="with a space of its own needs a budget"):
        zotune.ZotuneSearch(SPACE)
    with pytest.raises(ConfigError, match="needs metric and mode, got metric=None"):
        zotune.ZotuneSearch(SPACE, budget=9).suggest("a")
    with pytest.raises(ConfigError, match="one metric and mode 'min' or 'max'"):
        zotune.ZotuneSearch(SPACE, budget=9, metric=["a", "b"], mode=["min", "max"])
    with pytest.raises(ConfigError, match="no bounds: they are those of the space"):
        searching(bounds=(0, 1))
    with pytest.raises(ConfigError, match="takes no points that it has not suggested"):
        searching().add_evaluated_point({"net": {"x": 0.0, "y": 0.0}}, 1.0)
    with pytest.raises(ConfigError, match="got num_samples=-1"):
        zotune.ZotuneSearch().set_search_properties("loss", "min", SPACE, num_samples=-1)


def test_it_goes_on_from_a_file_and_from_a_pickle_at_any_moment(tmp_path: Path) -> None:
    search, points = searching(), []
    for number in range(BUDGET):
        if number % 2:
            search.save(str(tmp_path / "state"))
            search = zotune.ZotuneSearch()
            search.restore(str(tmp_path / "state"))
            assert search.set_search_properties(None, None, SPACE, num_samples=BUDGET)
        else:
            search = pickle.loads(pickle.dumps(search))
        config = search.suggest(str(number))
        search.save(str(tmp_path / "out"))
        search = zotune.ZotuneSearch()
        search.restore(str(tmp_path / "out"))
        points.append([config["net"]["x"], config["net"]["y"]])
        search.on_trial_complete(str(number), {"loss": loss(config)})
    assert points == asked_points()
    with pytest.raises(ConfigError, match="the restored search is over net/x, net/y with other"):
        search.set_search_properties(None, None, {"a": tune.uniform(0, 1)}, num_samples=BUDGET)
    zotune.Minimizer(MIDDLE, budget=9).save(tmp_path / "other")
    with pytest.raises(CheckpointError, match="needs a file that a ZotuneSearch has saved"):
        search.restore(str(tmp_path / "other"))


def test_a_trial_of_a_later_time_than_the_restored_state_is_known_by_its_parameters(
    tmp_path: Path,
) -> None:
    search = searching()
    search.save(str(tmp_path / "state"))
    config = search.suggest("later")
    search.restore(str(tmp_path / "state"))
    told = {f"config/net/{key}": value for key, value in config["net"].items()}
    search.on_trial_complete("later", {"loss": loss(config)} | told)
    search.on_trial_complete("unknown", {"loss": 1.0})
    assert [[c["net"]["x"], c["net"]["y"]] for c in trials(search)] == asked_points()[1:]


def test_it_says_once_that_tune_starts_one_trial_at_a_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "zotune"):
        for limited in (True, False):
            search = zotune.ZotuneSearch()
            driven = ConcurrencyLimiter(search, 2) if limited else search
            driven.set_search_properties("loss", "min", SPACE, num_samples=BUDGET)
            list(trials(driven))
            told = ["give max_concurrent_trials" in r.getMessage() for r in caplog.records]
            assert sum(told) == (not limited)


DRIVER = """
import json, os, sys, time
from pathlib import Path
from ray import tune
import zotune

here, seconds = Path(sys.argv[1]), float(sys.argv[2])

def f(config):
    x, y = config["net"]["x"], config["net"]["y"]
    with open(here / "calls", "a") as calls:
        calls.write(json.dumps([x, y]) + "\\n")
    time.sleep(seconds)
    return {"loss": 100 * (y - x * x) ** 2 + (1 - x) ** 2}

space = {"net": {"x": tune.uniform(-2.0, 2.0), "y": tune.uniform(-1.0, 3.0)}}
if tune.Tuner.can_restore(str(here / "e")):
    tuner = tune.Tuner.restore(str(here / "e"), f)
else:
    tuner = tune.Tuner(
        f,
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=12, search_alg=zotune.ZotuneSearch(),
            max_concurrent_trials=2, reuse_actors=True,
        ),
        run_config=tune.RunConfig(name="e", storage_path=str(here), verbose=0),
    )
with zotune.local_ray():
    results = tuner.fit()
found = [[r.config["net"]["x"], r.config["net"]["y"], r.metrics["loss"]] for r in results]
(here / "found").write_text(json.dumps(found))
"""


@pytest.mark.slow
def test_a_killed_driver_goes_on_with_the_same_trials(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(textwrap.dedent(DRIVER))
    words = [sys.executable, str(script), str(tmp_path)]
    environment = os.environ | QUIET | {"TUNE_GLOBAL_CHECKPOINT_S": "0"}
    calls = tmp_path / "calls"
    with subprocess.Popen([*words, "0.5"], env=environment) as driver:
        try:
            wait_for(lambda: calls.is_file() and len(calls.read_text().splitlines()) >= 5, 240)
        finally:
            driver.kill()
    assert not (tmp_path / "found").exists()
    subprocess.run([*words, "0"], env=environment, check=True, timeout=400)
    found = json.loads((tmp_path / "found").read_text())
    points = [[*x, valley(*x)] for x in asked_points(budget=12)]
    assert sorted(found) == sorted(points)
    assert len(found) == 12
