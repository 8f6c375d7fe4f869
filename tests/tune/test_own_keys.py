"""Hyperparameters of the user's own function in a Tuner's space, and data from Tune."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import PopulationBasedTraining
from ray.tune.search.basic_variant import BasicVariantGenerator
from torch import Tensor

import zotune
from tests.tune.conftest import Fit
from zotune.callbacks.records import params_of, settings_of
from zotune.errors import ConfigError
from zotune.tune.trainables import ZOTrainable

BLOCKS: dict[str, Any] = {"estimator": "align", "q": 3, "L": 2.0, "budget": 200}
METHODS: dict[str, dict[str, Any]] = {"auto": {"budget": 200}, "blocks": BLOCKS}


@pytest.fixture(autouse=True)
def working_directories_are_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(tmp_path))


def shifted(x: Tensor, config: Mapping[str, Any]) -> Tensor:
    """A bowl whose lowest point and lowest value are hyperparameters."""
    return (x - config["goal"]).square().sum() + config.get("floor", {}).get("height", 0.0)


def finish(trial: ZOTrainable) -> dict[str, Any]:
    row = trial.train()
    while not row["done"]:
        row = trial.train()
    return row


def saved(trial: ZOTrainable, folder: Path) -> str:
    folder.mkdir()
    trial.save(str(folder))
    return str(folder)


def point_of(trial: ZOTrainable) -> list[float]:
    assert trial._state is not None
    return [round(value, 2) for value in trial._state.best_x[0].tolist()]


# Keys of the space


def test_keys_that_are_not_settings_go_to_the_function_nested_ones_too() -> None:
    def fn(x: Tensor, data: float, config: Mapping[str, Any]) -> Tensor:
        assert config == {"run": {"goal": 1.5}, "tag": "first", "depth": 3}
        assert type(config["run"]["goal"]) is float
        return (x - data * config["run"]["goal"]).square().sum()

    bound = zotune.trainable(fn, data=2.0, dim=3, name="nested", depth=3, **BLOCKS)
    trial = bound({"q": 2, "run": {"goal": np.float64(1.5)}, "tag": "first"})
    finish(trial)
    assert point_of(trial) == [3.0] * 3
    assert trial._loop.config.q == 2


@pytest.mark.parametrize("method", METHODS)
def test_a_reused_actor_builds_the_objective_anew_when_a_key_of_its_changes(method: str) -> None:
    trial = zotune.trainable(shifted, dim=3, name="reused", **METHODS[method])({"goal": 1.0})
    finish(trial)
    for goal in (2.0, 2.0, -1.0):
        assert trial.reset({"goal": goal})
        finish(trial)
        assert point_of(trial) == [goal] * 3


def test_an_objective_is_kept_while_only_settings_of_the_run_change(tmp_path: Path) -> None:
    made = tmp_path / "made"

    def make(data: float, config: Mapping[str, Any]) -> zotune.Objective:
        with made.open("a") as file:
            file.write(f"{config['goal']};")
        return zotune.objective(lambda x: (x - data - config["goal"]).square().sum(), dim=2)

    bound = zotune.trainable(zotune.factory(make), data=1.0, name="kept", budget=20)
    trial = bound({"goal": 1, "q": 2})
    for config in ({"goal": 1, "q": 1}, {"goal": 2, "q": 1}):
        assert trial.reset(config)
    assert made.read_text() == "1;2;"


@pytest.mark.parametrize("method", METHODS)
def test_a_trial_continues_bit_for_bit_if_its_keys_are_those_of_the_checkpoint(
    method: str, tmp_path: Path
) -> None:
    bound = zotune.trainable(shifted, dim=3, name="resumed", **METHODS[method])
    own = {"goal": 1.0, "weights": np.arange(3.0)}
    first = bound(own)
    first.train()
    later = bound({"weights": np.arange(3.0), "goal": 1.0})
    later.restore(saved(first, tmp_path / "checkpoint"))
    assert finish(later)["evaluations"] == finish(first)["evaluations"] == 200
    assert later._state is not None
    assert first._state is not None
    assert torch.equal(later._state.x, first._state.x)


@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_of_other_keys_is_continued_on_the_new_function(
    method: str, tmp_path: Path
) -> None:
    """As in population-based training; no loss of the old function counts any more."""
    counted = tmp_path / "counted"

    def fn(x: Tensor, config: Mapping[str, Any]) -> Tensor:
        with counted.open("a") as file:
            file.write(".")
        return shifted(x, config)

    bound = zotune.trainable(fn, dim=3, name="mutated", **METHODS[method])
    donor = bound({"goal": 1.0})
    for _ in range(8):
        row = donor.train()
    assert row["best_loss"] < 1e-6
    heir = bound({"goal": 2.0, "floor": {"height": 10.0}})
    heir.restore(saved(donor, tmp_path / "checkpoint"))
    before = heir._loop.charged(heir._state)  # type: ignore[arg-type]
    row = heir.train()
    assert row["best_loss"] >= 10.0
    assert row["charged_before"] == donor._charged <= before
    row = finish(heir)
    assert point_of(heir) == [2.0] * 3
    assert row["best_loss"] == pytest.approx(10.0)
    assert row["spent"] in (199, 200)
    again = bound({"goal": 2.0, "floor": {"height": 10.0}})
    again.restore(saved(heir, tmp_path / "end"))
    assert again._state is not None
    assert float(again._state.best_loss) == row["best_loss"]


def test_a_charge_of_a_changed_function_is_counted(tmp_path: Path) -> None:
    """Every call of the function is in the row: as charged, or as looked."""
    counted = tmp_path / "counted"

    def fn(x: Tensor, config: Mapping[str, Any]) -> Tensor:
        with counted.open("a") as file:
            file.write(".")
        return shifted(x, config)

    for method, settings in METHODS.items():
        counted.write_text("")
        bound = zotune.trainable(fn, dim=3, name=f"counted-{method}", array="torch", **settings)
        donor = bound({"goal": 1.0})
        donor.train()
        heir = bound({"goal": 2.0})
        heir.restore(saved(donor, tmp_path / method))
        row = finish(heir)
        assert counted.stat().st_size == row["evaluations"] + row["monitored"], method


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"run_tag": "a"}, r"'run_tag' is not a setting; settings: .*go to a function that takes"),
        ({"budgt": 3}, r"'budgt' is not a setting \(did you mean 'budget'\?\); keys that are not"),
        ({"problem": "quadratic"}, "'problem' is not a setting of a trainable that has its objec"),
    ],
)
def test_keys_that_the_function_does_not_take_are_refused(
    config: dict[str, Any], message: str
) -> None:
    bound = zotune.trainable(lambda x: x.square().sum(), dim=2, name="closed", budget=10)
    with pytest.raises(ConfigError, match=message):
        bound(config)
    with pytest.raises(ConfigError, match=message):
        zotune.trainable(lambda x: x.square().sum(), dim=2, **config)


def test_a_problem_is_no_key_of_the_function_either() -> None:
    bound = zotune.trainable(shifted, dim=2, name="own-problem", budget=10)
    with pytest.raises(ConfigError, match="'problem' is not a setting of a trainable that has its"):
        bound({"goal": 1.0, "problem": "quadratic"})


def test_a_key_near_a_setting_goes_to_the_function_with_a_warning_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "zotune"):
        bound = zotune.trainable(shifted, dim=3, name="near", **BLOCKS)
        trial = bound({"goal": 1.0, "estimatr": "avg", "lr": 0.1, "run_tag": "a", "l2": 0.1})
        trial.reset({"goal": 1.0, "estimatr": "avg"})
    assert [record.message for record in caplog.records] == [
        "'estimatr' is not a setting and goes to your function; did you mean 'estimator'?"
    ]
    assert trial._own == {"goal": 1.0, "estimatr": "avg"}


def test_the_driver_warns_of_a_key_near_a_setting_too(caplog: pytest.LogCaptureFixture) -> None:
    bound = zotune.trainable(shifted, dim=3, name="near-too", **BLOCKS)
    closed = zotune.trainable(lambda x: x.sum(), dim=3, name="closed-too", **BLOCKS)
    with caplog.at_level(logging.WARNING, "zotune"):
        for trainable in (bound, bound, closed):
            assert trainable.default_resource_request({"goal": 1.0, "budjet": 3}) is None
    assert [record.message for record in caplog.records] == [
        "'budjet' is not a setting and goes to your function; did you mean 'budget'?"
    ]


def test_own_keys_are_params_beside_the_settings_and_their_defaults() -> None:
    tune.register_trainable("logged", zotune.trainable(shifted, dim=3, depth=3, **BLOCKS))
    trial = Trial("logged", config={"goal": 1.0, "floor": {"height": 0.5}})
    params = params_of(settings_of(trial))
    assert {"goal": "1.0", "floor.height": "0.5", "depth": "3", "q": "3"}.items() <= params.items()
    assert params["difference"] == "forward"
    assert "block_bytes" not in params


# Data and further arguments


def test_what_tune_with_parameters_adds_goes_to_the_function() -> None:
    def fn(x: Tensor, data: float, config: Mapping[str, Any], table: Tensor) -> Tensor:
        return (x - table * data * config["goal"]).square().sum()

    bound = zotune.trainable(fn, dim=3, name="added", **BLOCKS)
    table = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    trial = tune.with_parameters(bound, data=2.0, table=table)({"goal": 0.5})
    finish(trial)
    assert point_of(trial) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: tune.with_parameters(zotune.trainable(shifted, dim=2, name="a"), tabel=1),
            "shifted does not take its arguments: got an unexpected keyword argument 'tabel'",
        ),
        (
            lambda: tune.with_parameters(
                zotune.trainable(lambda x, data: x.sum(), data=1, dim=2, name="b"), data=2
            ),
            "data is given twice",
        ),
        (
            lambda: zotune.trainable(lambda x, data: x.sum(), dim=2, name="c"),
            "an objective must take one vector: missing a required argument: 'data'; with data=…",
        ),
        (
            lambda: tune.with_parameters(zotune.ZOTrainable, table=1),
            "zotune.ZOTrainable takes no table, which tune.with_parameters gives",
        ),
    ],
)
def test_arguments_that_do_not_fit_fail_in_setup_with_one_line(
    make: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make()({"problem": "quadratic", "budget": 10} if "ZOT" in message else {"budget": 10})


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        (
            lambda: zotune.trainable(zotune.objective(lambda x: x.sum(), 2), data=1),
            "does not take its arguments: too many positional arguments",
        ),
        (
            lambda: zotune.trainable(lambda x: x.sum(), data=1, dim=2),
            "does not take its arguments: too many positional arguments",
        ),
        (
            lambda: zotune.trainable(lambda x, config: x.sum(), data=1, dim=2),
            "does not take its arguments: multiple values for argument 'config'",
        ),
        (
            lambda: zotune.trainable(zotune.objective(lambda x: x.sum(), 2), start=[1.0, 2.0]),
            r"give it to zotune.objective\(fn, dim, start=…\)",
        ),
        (
            lambda: zotune.trainable(lambda x: x.sum(), dim=3, start=[1.0, 2.0]),
            r"start must have shape \(3,\)",
        ),
        (
            lambda: zotune.trainable(lambda x: x.sum(), start=3.0),
            r"start must be a vector, \(d,\)",
        ),
    ],
)
def test_a_binding_that_cannot_work_is_refused_at_once(
    bind: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        bind()


@pytest.mark.parametrize("dim", [3, None])
def test_a_trainable_starts_where_it_is_told(dim: int | None) -> None:
    start = np.array([3.0, 2.0, 1.0])
    bound = zotune.trainable(shifted, dim=dim, start=start, name="started", **BLOCKS)
    trial = bound({"goal": 1.0})
    assert trial._loop.objective.start().tolist() == [3.0, 2.0, 1.0]
    assert trial.train()["start_loss"] == pytest.approx(5.0)


def misfit(x: Tensor, data: Tensor) -> Tensor:
    return (x - data).square().sum()


def test_an_objective_with_a_start_takes_data() -> None:
    goal = torch.ones(3, dtype=torch.float64)
    objective = zotune.objective(misfit, 3, start=[3.0, 3.0, 3.0], L=2.0)
    trial = zotune.trainable(objective, data=goal, name="with-data", budget=100, q=3)({})
    assert trial.train()["start_loss"] == pytest.approx(12.0)
    run = zotune.minimize(objective, data=goal, budget=100)
    assert run.rows[0]["loss"] == pytest.approx(12.0)
    assert run.best_loss < 1e-8


def test_data_reach_numpy_functions_beside_arrays() -> None:
    def fn(x: Any, data: Any) -> float:
        assert type(x) is np.ndarray
        return float(np.sum((x - data) ** 2))

    run = zotune.minimize(fn, [0.0, 0.0], data=np.ones(2), budget=60)
    assert run.best_loss < 1e-8


def test_an_objective_without_its_data_is_refused_before_it_is_called() -> None:
    objective = zotune.objective(misfit, 3)
    with pytest.raises(ConfigError, match="missing a required argument: 'data'; with data=…"):
        zotune.minimize(objective, budget=10)


def test_a_registered_problem_without_its_data_is_refused() -> None:
    @zotune.objectives.register("needs-data")
    def needs_data(dim: int = 3) -> zotune.Objective:
        """A problem whose function lacks its data."""
        return zotune.objective(misfit, dim)

    try:
        with pytest.raises(ConfigError, match="missing a required argument: 'data'"):
            zotune.minimize("needs-data", budget=10)
    finally:
        zotune.objectives.PROBLEMS._entries.pop("needs-data")


# In a Tuner


def test_a_tuner_searches_the_functions_own_keys(fit: Fit) -> None:
    def fn(x: Tensor, data: Tensor, config: Mapping[str, Any]) -> Tensor:
        return (x - data).square().sum() + (config["model"]["l2"] - 0.5) ** 2

    bound = zotune.trainable(fn, dim=3, budget=60, start=[2.0, 2.0, 2.0])
    with_data = tune.with_parameters(bound, data=torch.ones(3, dtype=torch.float64))
    own = {"model": {"l2": tune.grid_search([0.0, 0.5])}, "run_tag": "mine"}
    results = fit(with_data, own)
    assert not results.errors
    best = results.get_best_result()
    assert best.config is not None
    assert best.config["model"]["l2"] == 0.5
    assert sorted(round(result.metrics["loss"], 6) for result in results) == [0.0, 0.25]


@pytest.mark.usefixtures("shared_ray")
def test_a_study_s_points_run_on_a_function_of_ones_own(tmp_path: Path) -> None:
    study = zotune.Study(
        name="points",
        problem={"name": "quadratic", "dim": 3},
        budget=60,
        total=120,
        space={"q": [1, 3]},
        fixed={"L": 2.0},
    )
    bound = zotune.trainable(misfit, data=torch.ones(3, dtype=torch.float64), dim=3)
    results = study.tuner(trainable=bound, storage_path=tmp_path).fit()
    assert not results.errors
    assert sorted(result.config["q"] for result in results) == [1, 3]  # type: ignore[index]
    best = zotune.load_run(results.get_best_result())
    assert torch.allclose(best.best_x, torch.ones(3, dtype=torch.float64), atol=1e-3)


@pytest.mark.slow
def test_population_based_training_changes_the_functions_own_keys(fit: Fit) -> None:
    def fn(x: Tensor, config: Mapping[str, Any]) -> Tensor:
        time.sleep(0.02)  # so that both trials run at the same time
        return (x - 1).square().sum() + config["height"]

    scheduler = PopulationBasedTraining(
        time_attr="spent",
        perturbation_interval=40,
        hyperparam_mutations={"height": [1.0, 2.0, 3.0, 4.0]},
        quantile_fraction=0.5,
        resample_probability=0.0,
    )
    results = fit(
        tune.with_resources(zotune.trainable(fn, dim=3, budget=320, report_every=20), {"cpu": 0.5}),
        {"height": tune.grid_search([1.0, 4.0])},
        scheduler=scheduler,
        search_alg=BasicVariantGenerator(random_state=0, max_concurrent=2),
        checkpoint=tune.CheckpointConfig(num_to_keep=8),
    )
    assert not results.errors
    heights = [result.config["height"] for result in results]  # type: ignore[index]
    assert heights != [1.0, 4.0]  # some trial was changed
    for result, height in zip(results, heights, strict=True):
        assert result.metrics["best_loss"] == pytest.approx(height, abs=1e-6)
        assert 318 <= result.metrics["spent"] <= 320
