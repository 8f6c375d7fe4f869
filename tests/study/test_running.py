"""Studies on a real Ray: every search, every scheduler, every exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from mlflow.tracking import MlflowClient
from ray import tune

import zotune
from tests.callbacks.conftest import history, runs
from tests.instrument import INSTRUMENT, minimize, plain_study
from tests.solo import reported, untimed
from tests.study.small import SMALL, invoke, written
from zotune.reporting.report import build
from zotune.results.store import Store


def assert_equal_to_solo(results: tune.ResultGrid) -> None:
    for at in range(len(results)):
        config = dict(results[at].config or {})
        alone = reported(config.pop("problem"), **config)
        run = zotune.load_run(results[at])
        assert torch.equal(run.x, alone.x)
        assert untimed(run.rows) == alone.rows


@pytest.mark.usefixtures("shared_ray")
def test_a_grid_from_python_gives_every_combination_as_its_solo_run(tmp_path: Path) -> None:
    seen: list[str] = []

    class Seen(tune.Callback):
        def on_trial_complete(
            self, iteration: int, trials: list[Any], trial: Any, **info: Any
        ) -> None:
            seen.append(trial.trial_id)

    space = SMALL["space"] | {"problem.seed": [0, 3]}
    results = plain_study(**SMALL | {"space": space}).run(
        tracking_uri="none", storage_path=tmp_path, callbacks=[Seen()]
    )
    assert not results.errors
    points = [
        (r.config["estimator"], r.config["q"], r.config["problem"]["seed"])
        for r in (results[at] for at in range(8))
        if r.config
    ]
    assert sorted(points) == sorted(
        (e, q, s) for e in ("avg", "align") for q in (1, 12) for s in (0, 3)
    )
    assert len(seen) == 8
    assert_equal_to_solo(results)
    (folder,) = (tmp_path / "mine").iterdir()
    assert json.loads((folder / "launch.json").read_text())["state"] == "finished"


@pytest.mark.usefixtures("shared_ray")
def test_rules_for_q_are_searched_as_numbers_are(tmp_path: Path) -> None:
    rules = [{"rule": "growth", "most": 12}, {"rule": "norm-test", "first": 2, "most": 12}]
    space = {"estimator": ["avg"], "q": [1, *rules]}
    fixed = {"step": "auto"}
    results = plain_study(**SMALL | {"space": space, "fixed": fixed}).run(
        tracking_uri="none", storage_path=tmp_path
    )
    assert not results.errors
    assert_equal_to_solo(results)
    chosen = [zotune.load_run(results[at]).config.q for at in range(3)]
    names = [q["rule"] if isinstance(q, dict) else q for q in chosen]
    assert sorted(names, key=str) == [1, "growth", "norm-test"]


@pytest.mark.usefixtures("shared_ray")
def test_optuna_draws_so_many_trials_and_asha_stops_some_on_report_points(tmp_path: Path) -> None:
    study = plain_study(
        **SMALL
        | {
            "budget": 960,
            "space": {"q": {"lograndint": [1, 12]}, "eta": {"loguniform": [1e-4, 2]}},
            "search": {"algorithm": "optuna", "trials": 6},
            "scheduler": "asha",
        }
    )
    tuner = study.tuner(storage_path=tmp_path, name="own", max_concurrent_trials=2)
    results = tuner.fit()
    assert Path(results.experiment_path) == tmp_path / "mine" / "own"
    assert len(results) == 6
    assert not results.errors
    rows = [results[at].metrics or {} for at in range(6)]
    assert {row["status"] for row in rows} == {"exhausted", "running"}
    for at, row in enumerate(rows):
        assert row["spent"] % study.reports_at < 12
        run = zotune.load_run(results[at])
        assert (run.spent, run.status) == (row["spent"], row["status"])


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
@pytest.mark.parametrize(
    ("scheduler", "within"),
    [
        ("median", []),
        pytest.param("median", ["eta"], marks=pytest.mark.long),
        ("asha", ["eta"]),
        pytest.param("asha", ["q"], marks=pytest.mark.long),
    ],
)
def test_trials_are_compared_with_those_that_agree_in_what_the_study_says(
    tmp_path: Path, scheduler: str, within: list[str]
) -> None:
    """Steps too short to move end above all others, and are stopped unless among themselves."""
    space = {"eta": [1, 0.9, 0.8, 1e-9], "q": [1, 2]}
    changes = {"budget": 960, "report_every": 120, "space": space}
    changes |= {"scheduler": scheduler, "within": within}
    tuner = plain_study(**SMALL | changes).tuner(storage_path=tmp_path, max_concurrent_trials=1)
    rows = [(result.config or {}, result.metrics or {}) for result in tuner.fit()]
    whole = [config for config, row in rows if row["status"] == "exhausted"]
    assert len(rows) == 8
    assert any(config["eta"] == 1 for config in whole)
    assert any(config["eta"] == 1e-9 for config in whole) == (within == ["eta"])
    if within == ["q"]:
        assert {config["q"] for config in whole} == {1, 2}


@pytest.mark.usefixtures("shared_ray")
def test_replicates_as_trials_are_the_rows_of_one_trial(tmp_path: Path) -> None:
    space = {"q": [12]}
    alone = plain_study(**SMALL | {"space": space, "replicates_as": "trials"}).run(
        tracking_uri="none", storage_path=tmp_path
    )
    together = minimize(SMALL["problem"], q=12, budget=96, replicates=2).x
    assert len(alone) == 2
    for at in range(2):
        run = zotune.load_run(alone[at])
        assert torch.allclose(run.x[0], together[run.config.replicate])


@pytest.mark.usefixtures("shared_ray")
def test_a_target_loss_ends_a_trial_at_its_next_report_with_its_point_kept(tmp_path: Path) -> None:
    changes = {"space": {"q": [12]}, "scheduler": "median", "stop": {"loss": 1e9, "plateau": 3}}
    results = plain_study(**SMALL | changes).run(tracking_uri="none", storage_path=tmp_path)
    row = results[0].metrics or {}
    assert (row["status"], row["spent"]) == ("running", 12)
    assert zotune.load_run(results[0]).state.ledger.queries == 12


@pytest.mark.usefixtures("shared_ray")
def test_wall_time_ends_a_study_even_before_its_first_trial(tmp_path: Path) -> None:
    path = written(tmp_path, stop={"seconds": 1e-6})
    done = invoke("run", path, "--storage", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "avg q=1: without a result" in done.output
    assert "loss" not in done.output


@pytest.mark.usefixtures("shared_ray")
def test_run_ends_with_the_best_of_each_estimator_and_q(tmp_path: Path) -> None:
    path = written(tmp_path, question="Which q?", space=SMALL["space"] | {"eta": [0.5, 1.0]})
    done = invoke("run", path, "--storage", tmp_path / "out", "--set", "space.q=[1,12,500]")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("Which q?\nleft out: avg q=500, because one step costs 500 of a")
    assert "8/8 " in done.output
    assert done.output.count("best,") + done.output.count("best ") >= 2
    (folder,) = (tmp_path / "out" / "mine").iterdir()
    assert f"records: {folder}" in done.output
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "space:\n" in (folder / "study.yaml").read_text()
    best = zotune.load_run(folder)
    every = [zotune.load_run(trial) for trial in folder.glob("*_q*")]
    assert len(every) == 8
    assert best.rows[-1]["loss"] == min(run.rows[-1]["loss"] for run in every)
    assert f'zotune.load_run("{folder}").best_x' in done.output


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_run_records_every_curve_in_mlflow_with_the_losses_of_all_replicates(
    tmp_path: Path, store: str
) -> None:
    path = written(tmp_path, question="Which q?")
    done = invoke("run", path, "--storage", tmp_path / "out", uri=store)
    assert done.exit_code == 0, done.output
    recorded = runs(store, "mine")
    assert sorted(recorded) == ["align q=1", "align q=12", "avg q=1", "avg q=12"]
    for run in recorded.values():
        settings = {"estimator": run.data.params["estimator"], "q": int(run.data.params["q"])}
        alone = reported(SMALL["problem"], budget=96, replicates=2, **{**INSTRUMENT, **settings})
        assert history(store, run, "loss") == [(row["spent"], row["loss"]) for row in alone.rows]
        assert json.loads(run.data.tags["zotune.final_losses"]) == alone.state.loss.tolist()
    (summary,) = runs(store, "mine", "summary").values()
    assert "Which q?" in summary.data.tags["mlflow.note.content"]
    (folder,) = (tmp_path / "out" / "mine").iterdir()
    assert f"report: {folder / 'report' / 'report.html'}" in done.output
    attached = MlflowClient(store).list_artifacts(summary.info.run_id, "report")
    assert {"report/report.html", "report/curves.png"} <= {file.path for file in attached}
    build(Store.open(store).read("mine", [])).write(tmp_path / "again")
    for name in ("report.md", "curves.csv", "table.csv"):
        told, again = ((at / name).read_text() for at in (folder / "report", tmp_path / "again"))
        differing = [*set(told.splitlines()) ^ set(again.splitlines())]
        assert not differing  # whether read here or from MLflow


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_trials_whose_time_is_over_are_whole_in_mlflow_and_claims_about_them_are_judged(
    tmp_path: Path, store: str
) -> None:
    claim = {"name": "one", "says": "One ends lower.", "best": {"q": 1}, "where": {}}
    timed = {"space": {"q": [1, 12]}, "report_every": 12, "stop": {"trial_seconds": 1e-9}}
    study = plain_study(**SMALL | timed | {"replicates": 6, "claims": [claim]})
    results = study.run(tracking_uri=store, storage_path=tmp_path)
    rows = [results[at].metrics or {} for at in range(2)]
    assert {(row["status"], row["spent"]) for row in rows} == {("out of time", 12)}
    words = {run.data.tags["zotune.status"] for run in runs(store, "mine").values()}
    assert words == {"out of time"}
    (verdict,) = build(Store.open(store).read("mine", [])).verdicts
    assert (verdict.name, verdict.pairs) == ("one", 6)


def test_a_store_of_files_is_refused_before_anything_starts(tmp_path: Path) -> None:
    done = invoke("run", written(tmp_path), "--storage", tmp_path / "out", uri="mlruns")
    assert done.exit_code == 2
    assert "zotune: tracking URI 'mlruns' names a folder of files" in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("shared_ray")
def test_run_for_a_machine_names_failed_trials_and_exits_1(tmp_path: Path) -> None:
    path = written(tmp_path, space={"mu": [1e-6, 1e-300]}, fixed={"estimator": "avg"})
    done = invoke("run", path, "--storage", tmp_path / "out", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["study"] == "mine"
    assert found["state"] == "finished"
    assert [entry["searched"] for entry in found["best"]] == [{"mu": 1e-6}]
    (failure,) = found["failed"]
    assert failure["error"].startswith("zotune.errors.ConfigError: mu must move the point")
    shown = f"failed: {failure['trial']} (avg q=1 mu=1e-300): {failure['error']}"
    assert shown in done.stderr.splitlines()


@pytest.mark.usefixtures("shared_ray")
def test_trials_that_no_machine_can_hold_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, resources={"cpu": 64})
    done = invoke("run", path, "--storage", tmp_path / "out")
    assert done.exit_code == 2
    wanted = "zotune: a trial wants 64 CPU, and the largest machine has 2; lower resources.cpu"
    assert wanted in done.output


def test_bad_input_is_told_whole_and_exits_2_without_ray(tmp_path: Path) -> None:
    path = written(tmp_path)
    done = invoke("run", path, "--set", "budget=no", "--set", "fixed.stepp=1")
    assert done.exit_code == 2
    assert [line.split(": ")[1] for line in done.output.splitlines()] == [
        "--set budget=no",
        "--set fixed.stepp=1",
    ]
    assert "zotune: study 'strongly' is not known" in invoke("run", "strongly").output
    refused = invoke("run", path, "--resume", "--set", "budget=3")
    assert refused.exit_code == 2
    assert "--resume continues a launch as it was, and refuses --set budget=3" in refused.output
    nothing = invoke("run", path, "--storage", tmp_path, "--resume")
    assert nothing.exit_code == 2
    assert "no unfinished launch of mine in" in nothing.output
    (tmp_path / "file").write_text("")
    unwritable = invoke("run", path, "--storage", tmp_path / "file")
    assert unwritable.exit_code == 2
    assert "zotune: cannot write to" in unwritable.output
