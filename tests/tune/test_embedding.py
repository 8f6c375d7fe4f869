"""In somebody else's pipeline: their scripts, searchers, schedulers and projects."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from ray import tune
from ray.tune.schedulers import ASHAScheduler, MedianStoppingRule, PopulationBasedTraining
from torch import Tensor

import zotune
from tests.packages import PIP, Distributions
from tests.servers import wait_for
from tests.solo import reported, untimed
from tests.tune.conftest import QUIET, Fit
from zotune.core.names import CURVE_KEY

PROBLEM = {"name": "quadratic", "dim": 16}


def space(**options: Any) -> dict[str, Any]:
    return zotune.search_space(dim=16, budget=320, problem=PROBLEM, seed=1, **options)


def solo(result: tune.Result) -> zotune.Run:
    """The run that a trial should have been, made in this process."""
    assert result.config is not None
    config = dict(result.config)
    return reported(config.pop("problem"), **config)


def assert_equal_to_solo(results: tune.ResultGrid) -> None:
    for result in results:
        run, alone = zotune.load_run(result), solo(result)
        assert torch.equal(run.x, alone.x)
        assert untimed(run.rows) == alone.rows


class Seen(tune.Callback):
    """A user's own callback."""

    def __init__(self) -> None:
        self.results: list[dict[str, Any]] = []

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.results.append(result)


def test_metrics_and_failures_of_a_plain_function_go_with_it_to_its_trials(fit: Fit) -> None:
    def misfit(x: Tensor, goal: Tensor) -> Tensor:
        if x.sum() > 30:
            raise FloatingPointError
        return (x - goal).square().sum()

    trainable = zotune.trainable(
        misfit,
        data=torch.ones(4, dtype=torch.float64),
        dim=4,
        budget=60,
        metrics={"far": lambda x: (x - 1).abs().max()},
        failures=FloatingPointError,
    )
    (result,) = fit(trainable, {"estimator": tune.grid_search(["auto"])}, num_samples=1)
    assert result.metrics is not None
    assert result.metrics["far"] < 1e-3
    assert zotune.load_run(result).best_loss < 1e-6


def test_every_trial_of_a_study_equals_its_solo_run(fit: Fit) -> None:
    seen = Seen()
    results = fit(zotune.ZOTrainable, space(eta=(0.2, 1.0)), num_samples=6, callbacks=[seen])
    assert not results.errors
    assert_equal_to_solo(results)
    assert all(result.metrics["timesteps_total"] == 320 for result in results)
    assert all(CURVE_KEY not in result for result in seen.results)
    frame = results[0].metrics_dataframe
    assert frame is not None
    assert frame["timesteps_total"].is_monotonic_increasing
    assert not [column for column in frame.columns if column.startswith("_")]


def test_asha_cuts_on_spent_budget(fit: Fit) -> None:
    scheduler = ASHAScheduler(time_attr="spent", max_t=320, grace_period=40, reduction_factor=2)
    results = fit(zotune.ZOTrainable, space(), num_samples=6, scheduler=scheduler)
    spent = sorted(result.metrics["spent"] for result in results)
    assert not results.errors
    assert spent[-1] == 320
    assert spent[0] < 320


@pytest.mark.slow
def test_median_stopping_and_a_stopper_of_the_users(fit: Fit) -> None:
    rule = MedianStoppingRule("timesteps_total", grace_period=80, min_samples_required=2)
    stop = tune.stopper.FunctionStopper(lambda trial_id, result: result["spent"] >= 160)
    results = fit(zotune.ZOTrainable, space(), num_samples=4, scheduler=rule, stop=stop)
    assert not results.errors
    assert all(result.metrics["spent"] <= 180 for result in results)


@pytest.mark.slow
def test_population_based_training_exploits_across_estimators_and_steps(fit: Fit) -> None:
    scheduler = PopulationBasedTraining(
        time_attr="spent",
        perturbation_interval=60,
        hyperparam_mutations={
            "eta": tune.loguniform(0.1, 1),
            "q": [1, 4, 16],
            "estimator": ["avg", "align"],
        },
        quantile_fraction=0.5,
    )
    results = fit(
        tune.with_resources(zotune.ZOTrainable, {"cpu": 0.5}),
        space(eta=(0.1, 1.0)),
        num_samples=2,
        scheduler=scheduler,
        checkpoint=tune.CheckpointConfig(num_to_keep=8),
    )
    assert not results.errors
    assert all(result.metrics["spent"] == 320 for result in results)


@pytest.mark.slow
def test_optuna_searches_a_space_with_a_nested_problem(fit: Fit) -> None:
    from ray.tune.search.optuna import OptunaSearch

    nested = space() | {"problem": PROBLEM | {"seed": tune.choice([3, 4])}}
    searcher = OptunaSearch(seed=0)
    results = fit(zotune.ZOTrainable, nested, num_samples=4, search_alg=searcher)
    assert not results.errors
    assert {result.config["problem"]["seed"] for result in results} <= {3, 4}
    assert_equal_to_solo(results)


def shifted(x: Tensor) -> float:
    return float(((x - 2) ** 2).sum())


@pytest.mark.parametrize("batched", [False, True])
def test_their_own_objective(fit: Fit, batched: bool) -> None:
    fn = (lambda x: ((x - 2) ** 2).sum(-1)) if batched else shifted
    objective = zotune.objective(fn, dim=6, batched=batched, L=2.0, optimum=0.0)
    own = zotune.search_space(dim=6, budget=240, estimators=["align"], eta=(0.5, 1.5))
    results = fit(zotune.trainable(objective), own, num_samples=2)
    assert not results.errors
    best = zotune.load_run(results.get_best_result())
    assert best.best_loss < 0.01
    assert torch.allclose(best.best_x, torch.full((6,), 2.0, dtype=torch.float64), atol=0.1)


@pytest.mark.slow
def test_two_tuners_side_by_side_do_not_mix(fit: Fit, tmp_path: Path) -> None:
    """Same code, other data, at the same time in one driver; Ray registers one at a time."""
    targets = {name: torch.full((4,), value) for name, value in (("one", 1.0), ("two", -2.0))}

    def run(name: str) -> tune.ResultGrid:
        if name == "two":
            wait_for(lambda: list((tmp_path / "one").glob("*/params.json")))
        bound = zotune.trainable(
            lambda x, data: float((x - data).square().sum()), data=targets[name], dim=4
        )
        own = {"estimator": "align", "q": 4, "budget": 120, "L": 2.0}
        return fit(tune.with_resources(bound, {"cpu": 0.5}), own, name=name)

    with ThreadPoolExecutor(2) as pool:
        grids = dict(zip(targets, pool.map(run, targets), strict=True))
    grids["again"] = run("one")
    for name, value in (("one", 1.0), ("two", -2.0), ("again", 1.0)):
        assert not grids[name].errors
        best = zotune.load_run(grids[name][0]).best_x
        assert torch.allclose(best, torch.full((4,), value, dtype=torch.float64), atol=1e-3)


def test_two_half_gpu_trials_share_a_device(fit: Fit) -> None:
    class Located(zotune.ZOTrainable):
        def step(self) -> dict[str, Any]:
            import ray

            ids = ray.get_runtime_context().get_accelerator_ids()["GPU"]
            return super().step() | {"device": ",".join(ids), "runs_on": str(self._device())}

    on_half = tune.with_resources(Located, {"cpu": 0.5, "gpu": 0.5})
    results = fit(on_half, space(estimators=["avg"]), num_samples=2)
    assert not results.errors
    assert [result.metrics["device"] for result in results] == ["0", "0"]
    assert {result.metrics["runs_on"] for result in results} == {"cpu"}  # the GPU is not there


# Their projects, in processes of their own


def script(folder: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a user's script in their folder, with nothing of this source tree on the path."""
    (folder / "main.py").write_text(textwrap.dedent(text))
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "main.py"],
        cwd=folder,
        env=clean | QUIET | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


THEIR_STUDY = """
    import ray, zotune
    from ray import tune

    {before}
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False{init})
    own = zotune.search_space(dim=8, budget=80, problem={{"name": "quadratic", "dim": 8}})
    results = tune.Tuner(
        {trainable},
        param_space=own,
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=2),
        run_config=tune.RunConfig(storage_path="{storage}", verbose=0),
    ).fit()
    assert not results.errors, results.errors
    print("best", zotune.load_run(results.get_best_result()).status, zotune.__file__)
"""


@pytest.mark.slow
def test_a_project_with_callbacks_and_studies_of_its_own(tmp_path: Path) -> None:
    for name in ("callbacks", "studies"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"OWNER = 'the user, of {name}'\n")
    text = THEIR_STUDY.format(
        before="import callbacks, studies\nfrom zotune.callbacks import FailFast"
        "\n    print(callbacks.OWNER, studies.OWNER)".replace("\n", "\n    ", 1),
        init=', runtime_env={"working_dir": "."}',
        trainable="zotune.ZOTrainable",
        storage=tmp_path / "results",
    )
    done = script(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert "the user, of callbacks the user, of studies" in done.stdout
    assert "best exhausted" in done.stdout


@pytest.fixture
def wheel(distributions: Distributions, tmp_path: Path) -> Path:
    """The package as users install it, unpacked beside its dependencies."""
    target = tmp_path / "installed"
    options = ["--no-deps", "--target", str(target), str(distributions.wheel)]
    subprocess.run([*PIP, "install", *options], check=True)
    return target


@pytest.mark.slow
def test_an_installed_wheel_rather_than_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    text = THEIR_STUDY.format(
        before="", init="", trainable="zotune.ZOTrainable", storage=tmp_path / "results"
    )
    done = script(tmp_path, text, PYTHONPATH=str(wheel))
    assert done.returncode == 0, done.stderr
    assert f"best exhausted {wheel}" in done.stdout
    assert not (wheel / "callbacks").exists()
    assert not (wheel / "studies").exists()
    assert (wheel / "zotune" / "callbacks" / "fail_fast.py").is_file()
