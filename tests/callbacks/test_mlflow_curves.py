"""Curves in a real store: every point of every metric once, and what became of each trial."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from ray import tune

import zotune
from tests.callbacks.conftest import history, runs
from tests.instrument import INSTRUMENT
from tests.solo import reported
from tests.tune.conftest import Fit
from tests.weights.models import TinyQwen
from zotune.callbacks import FailFast, MLflowCurves, run_from_mlflow
from zotune.callbacks.records import numbers_of
from zotune.callbacks.stores import open_client
from zotune.core.names import STATE_FILE
from zotune.errors import CheckpointError

CONFIG: dict[str, Any] = {
    **INSTRUMENT,
    "problem": {"name": "quadratic", "dim": 30},
    "estimator": "align",
    "q": 7,
    "budget": 2000,
    "replicates": 2,
    "curve": True,
}
Points = dict[str, list[tuple[int, float]]]


def undisturbed(config: dict[str, Any] = CONFIG) -> zotune.Run:
    settings = dict(config)
    return reported(settings.pop("problem"), **settings)


def expected(run: zotune.Run) -> Points:
    """Every metric's points, from the run that ran alone."""
    points: Points = {}
    for row in run.rows:
        for key, value in numbers_of(row).items():
            points.setdefault(key, []).append((row["spent"], value))
    return points


def test_every_point_of_a_curve_is_in_its_run_once(fit: Fit, store: str, tmp_path: Path) -> None:
    results = fit(
        zotune.ZOTrainable,
        CONFIG | {"q": tune.grid_search([7, 30])},
        callbacks=[MLflowCurves(store, "curves", tags={"team": "blue"}, question="How?")],
    )
    assert not results.errors
    found = runs(store, "curves")
    assert set(found) == {"align q=7", "align q=30"}
    for q in (7, 30):
        run, alone = found[f"align q={q}"], undisturbed(CONFIG | {"q": q})
        curve = expected(alone)
        assert len(curve["loss"]) == 320
        for key, points in curve.items():
            assert history(store, run, key) == points
        final = {f"final_{key}" for key in (*curve, "L", "seconds")}
        assert set(run.data.metrics) == {*curve, *final, "seconds"}
        times = [value for _, value in history(store, run, "seconds")]
        assert len(times) == 320
        assert times == sorted(times)
        assert run.data.metrics["final_loss"] == alone.rows[-1]["loss"]
        assert run.info.status == "FINISHED"
        assert run.data.params["problem.name"] == "quadratic"
        assert run.data.params["q"] == str(q)
        assert run.data.tags["zotune.status"] == "exhausted"
        assert run.data.tags["team"] == "blue"
        assert torch.equal(run_from_mlflow(run.info.run_id, store).best_x, alone.best_x)
    (summary,) = runs(store, "curves", "summary").values()
    _check_summary(store, summary)
    with next(tmp_path.rglob("progress.csv")).open() as file:
        assert "_zotune_curve" not in next(csv.reader(file))


def distant(x: torch.Tensor) -> torch.Tensor:
    return (x - 3).square().sum()


@pytest.mark.slow
def test_metrics_of_one_s_own_arrive_as_curves(fit: Fit, store: str) -> None:
    own = {"farthest": lambda x: (x - 3).abs().max(), "mean": lambda x: x.mean()}
    measured = zotune.objective(distant, 5, metrics=own, name="distant")
    told = {"budget": 300, "points": 40}
    searched = told | {"estimator": tune.grid_search(["auto", "avg"])}
    results = fit(zotune.trainable(measured), searched, callbacks=[MLflowCurves(store, "own")])
    assert not results.errors
    recorded = {run.data.params["estimator"]: run for run in runs(store, "own").values()}
    assert set(recorded) == {"auto", "avg"}
    for estimator, run in recorded.items():
        alone = reported(measured, **told, estimator=estimator)
        for name in own:
            points = history(store, run, name)
            assert points == [(row["spent"], row[name]) for row in alone.rows]
            assert len(points) > 10
            assert run.data.metrics[f"final_{name}"] == alone.rows[-1][name]
        assert history(store, run, "farthest")[0] == (0, 3.0)  # runs begin at zero
        assert {run.data.params[key] for key in ("q", "update", "step")} == {"auto"}


def _check_summary(store: str, summary: Any) -> None:
    assert summary.info.status == "FINISHED"
    note = summary.data.tags["mlflow.note.content"]
    assert "2 finished" in note
    assert "How?" in note
    assert summary.data.params["zotune"] == zotune.__version__
    assert {"python", "machine", "ray", "mlflow"} <= set(summary.data.params)
    files = {f.path for f in open_client(store).list_artifacts(summary.info.run_id)}
    assert files == {"summary.md", "trials.csv"}


def test_a_run_without_a_point_is_refused_by_name(store: str) -> None:
    client = open_client(store)
    empty = client.create_run(client.create_experiment("none")).info.run_id
    with pytest.raises(CheckpointError, match=f"MLflow run {empty} has no point"):
        run_from_mlflow(empty, store)
    with pytest.raises(CheckpointError, match="MLflow run 0123 is not in the store"):
        run_from_mlflow("0123", store)
    client.set_tag(empty, "zotune.point", "too large to be stored here; it is in the checkpoint c7")
    with pytest.raises(CheckpointError, match=r"has no point: too large .* in the checkpoint c7;"):
        run_from_mlflow(empty, store)


def test_the_weights_of_a_model_come_back_by_the_id_of_its_run(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    model, path = TinyQwen(), tmp_path / STATE_FILE
    settings = {"step": "constant", "eta": 0.01, "update": "sgd"}
    zotune.minimize(model, budget=4, q=2, checkpoint=path, **settings)
    client = open_client(store)
    run_id = client.create_run(client.create_experiment("weights")).info.run_id
    client.log_artifact(run_id, str(path), "point")
    found = zotune.load_run(run_id).weights()
    assert found.keys() == model.trained.keys()
    assert all(torch.equal(found[name], model.trained[name]) for name in found)


def foreign(config: dict[str, Any]) -> None:
    for at in range(1, 6):
        score = float("inf") if at == 4 else at * config["slope"]
        tune.report({"score": score, "timesteps_total": 10 * at, "nested": {"value": at}})


@pytest.mark.slow
def test_anybodys_trainable_is_logged_without_arguments_from_the_environment(
    fit: Fit, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "foreign")
    monkeypatch.setenv("RAY_TUNE_CALLBACKS", "zotune.callbacks.MLflowCurves")
    results = fit(foreign, {"slope": 0.5}, metric="score", mode="max", reuse_actors=False)
    assert not results.errors
    (run,) = runs(store, "foreign").values()
    assert run.info.run_name.startswith("foreign_")
    curve = {"score", "nested/value"}
    assert set(run.data.metrics) == curve | {f"final_{key}" for key in curve}
    assert history(store, run, "nested/value") == [(10 * at, at) for at in range(1, 6)]
    assert history(store, run, "score") == [(10, 0.5), (20, 1.0), (30, 1.5), (50, 2.5)]
    assert run.info.status == "FINISHED"
    assert run.data.tags["zotune.nonfinite"] == "score from 40"
    assert run.data.tags["zotune.status"] == "finished"  # its last score is finite


def test_a_stopped_trial_is_finished_and_has_its_curve_without_being_asked(
    fit: Fit, store: str
) -> None:
    results = fit(
        zotune.ZOTrainable,
        {key: value for key, value in CONFIG.items() if key != "curve"},
        callbacks=[MLflowCurves(store)],
        stop={"spent": 1000},
        name="stopped_2026-01-02_03-04-05",
    )
    (run,) = runs(store, "stopped").values()
    assert (run.info.status, run.data.tags["zotune.status"]) == ("FINISHED", "stopped early")
    spent = (results[0].metrics or {})["spent"]
    curve = [(row["spent"], row["loss"]) for row in undisturbed(CONFIG).rows]
    assert history(store, run, "loss") == [point for point in curve if point[0] < spent]
    assert 1000 <= spent < 1100


class EndOfAll(tune.Stopper):
    """Ends the experiment as a time budget does, at the third result."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self.seen += 1
        return False

    def stop_all(self) -> bool:
        return self.seen >= 3


@pytest.mark.slow
def test_trials_that_the_end_of_the_experiment_cuts_are_killed(
    fit: Fit, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")  # they leave files open
    fit(zotune.ZOTrainable, CONFIG, callbacks=[MLflowCurves(store, "cut")], stop=EndOfAll())
    (run,) = runs(store, "cut").values()
    assert (run.info.status, run.data.tags["zotune.status"]) == ("KILLED", "interrupted")
    (summary,) = runs(store, "cut", "summary").values()
    assert summary.info.status == "KILLED"


def test_a_trial_that_fails_is_failed_and_says_why(fit: Fit, store: str) -> None:
    fit(
        zotune.ZOTrainable,
        CONFIG | {"q": tune.grid_search([7, 31])},
        callbacks=[MLflowCurves(store, "failing", nested=True), FailFast()],
    )
    found = runs(store, "failing")
    assert found["align q=7"].info.status == "FINISHED"
    failed = found["align q=31"]
    assert failed.info.status == "FAILED"
    assert "q must be at most the dimension" in failed.data.tags["zotune.error"]
    (summary,) = runs(store, "failing", "summary").values()
    assert summary.info.status == "FAILED"
    assert failed.data.tags["mlflow.parentRunId"] == summary.info.run_id
