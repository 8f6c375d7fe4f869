"""Studies on a real Ray: every search, every scheduler, every exit code; kills and Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from mlflow.tracking import MlflowClient
from ray import tune

import zotune
from tests.callbacks.conftest import Gate, history, runs
from tests.conftest import QUIET
from tests.instrument import INSTRUMENT, minimize, plain_study
from tests.marked import marked, new_mark
from tests.servers import Server, wait_for
from tests.solo import reported, untimed
from zotune.callbacks import sync
from zotune.callbacks.spool import Spool
from zotune.cli import main
from zotune.cli.run_command import Request
from zotune.cli.run_command import _resume as resume_command
from zotune.objectives import complete_problem
from zotune.reporting.report import build
from zotune.results.store import Store
from zotune.study import load_study
from zotune.study.launch import LaunchError, extended_launch, new_launch, old_launch
from zotune.study.running import known_store, with_store
from zotune.study.tuning import bound_trainable

FORMAT_1_LAUNCH = Path(__file__).parents[1] / "fixtures" / "format1" / "launch"

SMALL: dict[str, Any] = {
    "name": "mine",
    "problem": {"name": "quadratic", "dim": 12},
    "budget": 96,
    "replicates": 2,
    "space": {"estimator": ["avg", "align"], "q": [1, 12]},
}


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
    assert "avg q=1: stopped early" in done.output
    assert "loss" not in done.output


def invoke(*words: str | Path, uri: str = "none") -> Result:
    options = ["--tracking-uri", uri] if words[0] == "run" else []
    return CliRunner().invoke(main, [*(str(word) for word in words), *options])


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "mine.yaml"
    path.write_text(plain_study(**SMALL | changes).to_yaml())
    return path


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
def test_a_launch_killed_before_tune_saved_anything_starts_over(tmp_path: Path) -> None:
    path = written(tmp_path, space={"q": [12]})
    with new_launch(load_study(path), tmp_path / "out") as killed:
        (killed.folder / "experiment_state-2026.json").write_text('{"trial_data": [[')
    done = invoke("run", path, "--storage", tmp_path / "out", "--resume", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["launch"] == killed.id
    assert invoke("run", path, "--storage", tmp_path / "out", "--resume").exit_code == 2


@pytest.mark.usefixtures("shared_ray")
def test_a_launch_whose_only_state_is_torn_goes_on_from_its_checkpoints(tmp_path: Path) -> None:
    path = written(tmp_path, space={"q": [12]})
    assert invoke("run", path, "--storage", tmp_path / "out").exit_code == 0
    (folder,) = (tmp_path / "out" / "mine").iterdir()
    (before,) = folder.glob("*_q12")
    for state in folder.glob("experiment_state-*.json"):
        state.write_text("")
    record = json.loads((folder / "launch.json").read_text())
    (folder / "launch.json").write_text(json.dumps(record | {"state": "interrupted"}))
    done = invoke("run", path, "--storage", tmp_path / "out", "--resume", "--json")
    assert done.exit_code == 0, done.output
    (again,) = set(folder.glob("*_q12")) - {before}
    rows = [json.loads(line) for line in (again / "result.json").read_text().splitlines()]
    assert [row["spent"] for row in rows] == [96]
    assert untimed(zotune.load_run(again).rows) == untimed(zotune.load_run(before).rows)


@pytest.mark.usefixtures("shared_ray")
def test_a_launch_that_starts_over_supersedes_the_trials_it_had_begun(
    tmp_path: Path, store: str
) -> None:
    path = written(tmp_path, space={"q": [12]})
    with new_launch(load_study(path), tmp_path / "out") as killed:
        about = {"launch_id": killed.id, "experiment": "mine", "tracking_uri": store, "time": 1}
        spool = Spool(killed.folder / "curves" / killed.id, about)
        begun = {"trial": "old", "time": 2, "name": "align q=12", "params": {"q": "12"}}
        spool.append({"kind": "started", **begun})
        spool.close()
        sync(killed.folder, seconds=0)
    assert runs(store, "mine")["align q=12"].info.status == "KILLED"
    done = invoke("run", path, "--storage", tmp_path / "out", "--resume", uri=store)
    assert done.exit_code == 0, done.output
    (old,) = runs(store, "mine", "superseded").values()
    assert old.data.tags["zotune.trial_id"] == "old"
    (new,) = runs(store, "mine").values()
    assert (new.info.status, new.data.tags["zotune.launch_id"]) == ("FINISHED", killed.id)


@pytest.mark.usefixtures("shared_ray")
def test_a_state_that_a_kill_has_torn_is_set_aside_and_the_one_before_goes_on(
    tmp_path: Path,
) -> None:
    path, out = written(tmp_path, space={"q": [1, 12]}), tmp_path / "out"
    first = json.loads(invoke("run", path, "--storage", out, "--json").stdout)
    folder = Path(first["folder"])
    states = sorted(folder.glob("*-state-*.json")) + sorted(folder.glob("experiment_state-*.json"))
    for state in states:
        later = state.name.replace("-20", "-21")  # of a session in the next century
        state.with_name(later).write_text(state.read_text(errors="ignore")[:99])
    record = json.loads((folder / "launch.json").read_text())
    (folder / "launch.json").write_text(json.dumps(record | {"state": "interrupted"}))
    trials = {trial for entry in first["best"] for trial in entry["trials"]}
    done = invoke("run", path, "--storage", out, "--resume", "--json")
    assert done.exit_code == 0, done.output
    assert {t for entry in json.loads(done.stdout)["best"] for t in entry["trials"]} == trials
    torn = sorted(file.name.partition("-21")[0] for file in folder.glob("*.torn"))
    assert torn == ["basic-variant-state", "experiment_state"]


@pytest.mark.usefixtures("shared_ray")
def test_a_finished_launch_goes_on_to_a_larger_budget_as_if_it_had_had_it(tmp_path: Path) -> None:
    path, out = written(tmp_path), tmp_path / "out"
    first = invoke("run", path, "--storage", out, "--json")
    assert first.exit_code == 0, first.output
    done = invoke("run", path, "--storage", out, "--resume", "--budget", "192", "--json")
    assert done.exit_code == 0, done.output
    before, after = json.loads(first.stdout), json.loads(done.stdout)
    assert f"goes on from launch {before['launch']}" in done.stderr
    assert len(after["best"]) == 4
    trials = list(Path(after["folder"]).glob("*_q*"))
    assert len(trials) == 4
    for trial in trials:
        run = zotune.load_run(max(trial.glob("checkpoint_*")))
        assert isinstance(run, zotune.Run)
        settings = {"estimator": run.config.estimator, "q": run.config.q, "replicates": 2}
        alone = reported(SMALL["problem"], budget=192, **{**INSTRUMENT, **settings})
        assert torch.equal(run.x, alone.x)
        assert run.curve["loss"].tolist() == alone.curve["loss"].tolist()
        assert run.state.ledger.evaluations == alone.state.ledger.evaluations
        rows = (trial / "result.json").read_text().splitlines()
        assert json.loads(rows[0])["spent"] > 96  # what was spent is not spent again
    assert json.loads((Path(before["folder"]) / "launch.json").read_text())["state"] == "finished"


@pytest.mark.usefixtures("shared_ray")
def test_a_random_search_goes_on_to_more_trials_and_keeps_those_it_had(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        space={"q": [4], "eta": {"loguniform": [0.1, 1.0]}},
        search={"algorithm": "random", "trials": 2},
    )
    options = ("--storage", tmp_path / "out", "--json")
    first = json.loads(invoke("run", path, *options).stdout)
    done = invoke("run", path, *options, "--resume", first["launch"], "--trials", "3")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["trials"] == 3
    etas = [
        sorted(
            zotune.load_run(max(trial.glob("checkpoint_*"))).config.eta or 0.0
            for trial in Path(found["folder"]).glob("*_q4")
        )
        for found in (first, json.loads(done.stdout))
    ]
    assert set(etas[0]) < set(etas[1])
    steps = [len(file.read_text().splitlines()) for file in tmp_path.rglob("result.json")]
    assert sorted(steps)[:2] == [1, 1]  # those that had ended say so, and no more


def test_going_on_needs_a_launch_and_more_than_it_had(tmp_path: Path) -> None:
    path, out = written(tmp_path), ("--storage", tmp_path / "out")
    assert "need --resume" in invoke("run", path, *out, "--budget", "500").output
    assert "no launch of mine in" in invoke("run", path, *out, "--resume", "--budget", "9").output
    with new_launch(load_study(path), tmp_path / "out"):
        pass
    less = invoke("run", path, *out, "--resume", "--budget", "96")
    assert less.exit_code == 2
    assert "--budget must be more than the 96 that the launch had, got 96" in less.output
    grid = invoke("run", path, *out, "--resume", "--trials", "9")
    assert "--trials is for random and optuna searches" in grid.output
    race = written(tmp_path, total=900, search={"algorithm": "race"}, name="raced")
    with new_launch(load_study(race), tmp_path / "out"):
        pass
    more = invoke("run", race, *out, "--resume", "--total", "9000")
    assert more.exit_code == 2
    assert "go on with its winner: --only best --budget N" in more.output


@pytest.mark.usefixtures("shared_ray")
def test_a_larger_total_begins_what_was_left_out_and_counts_what_was_spent(tmp_path: Path) -> None:
    path = written(tmp_path, total=200, space={"estimator": ["avg", "align"], "q": [1, 5]})
    options = ("--storage", tmp_path / "out", "--json", "--no-report")
    first = json.loads(invoke("run", path, *options).stdout)
    assert first["spent"]["charged"] <= 200
    assert first["left_out"][-1] == "align q=5"
    done = invoke("run", path, *options, "--resume", first["launch"], "--total", "1000")
    assert done.exit_code == 0, done.output
    more = json.loads(done.stdout)
    assert more["left_out"] == []
    assert more["spent"]["before"] == first["spent"]["charged"]
    assert more["spent"]["charged"] + more["spent"]["before"] == 4 * 2 * 96
    assert more["spent"]["left"] == 1000 - 4 * 2 * 96


@pytest.mark.usefixtures("shared_ray")
def test_a_launch_of_format_1_goes_on_from_its_checkpoints_with_a_larger_budget(
    tmp_path: Path,
) -> None:
    before = shutil.copytree(FORMAT_1_LAUNCH, tmp_path / "out") / "tiny"
    (old,) = before.iterdir()
    words = ("run", old / "study.yaml", "--storage", tmp_path / "out")
    done = invoke(*words, "--resume", old.name, "--budget", "80", "--json")
    assert done.exit_code == 0, done.output
    folder = Path(json.loads(done.stdout)["folder"])
    for q in (1, 4):
        (trial,) = folder.glob(f"*_q{q}")
        first = json.loads((trial / "result.json").read_text().splitlines()[0])
        assert first["spent"] > 40  # what the old launch had spent is not spent again
        run, whole = zotune.load_run(trial), zotune.load_run(next(old.glob(f"*_q{q}")))
        assert run.config == whole.config.model_copy(update={"budget": 80, "report_every": 5})
        assert run.spent == 80
        problem, settings = run.config.problem, run.config.model_dump(exclude={"problem"})
        torch.testing.assert_close(run.x, zotune.minimize(problem, **settings).x)


@pytest.mark.usefixtures("shared_ray")
def test_trials_that_a_resumed_launch_had_begun_keep_its_defaults() -> None:
    problem = {"name": "quadratic", "dim": 12, "condition": 9.0}
    study = plain_study(**SMALL | {"problem": problem, "fixed": {"directions": "rademacher"}})
    trial = bound_trainable(study, shared=study.config)(
        {"problem": {"name": "quadratic", "dim": 12}, "budget": 96, "q": 12}
    )
    config = trial._loop.config
    assert (config.directions, config.q, config.problem) == (
        "rademacher",
        12,
        complete_problem(problem),
    )
    trial.stop()


@pytest.mark.usefixtures("shared_ray")
def test_trials_that_no_machine_can_hold_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, resources={"cpu": 64})
    done = invoke("run", path, "--storage", tmp_path / "out")
    assert done.exit_code == 2
    wanted = "zotune: a trial wants 64 CPU, and the largest machine has 2; lower resources.cpu"
    assert wanted in done.output


SECRET = "https://me:open/sesame@tracking.example.org"
BARE = "https://tracking.example.org"


def test_a_launch_goes_on_in_its_own_store_and_refuses_another(tmp_path: Path) -> None:
    study = load_study(written(tmp_path))
    with new_launch(study, tmp_path) as launch:
        started = with_store(launch, SECRET)
    assert "sesame" not in (launch.folder / "launch.json").read_text()
    assert (started.notes["tracking_uri"], known_store(started)) == (BARE, SECRET)
    for given in (None, BARE, SECRET):
        with old_launch("mine", tmp_path, launch.id) as again:
            assert known_store(with_store(again, given)) == SECRET
    refused = f"launch {launch.id} is recorded in {BARE}, and cannot go on in none; leave out"
    with (
        old_launch("mine", tmp_path, launch.id) as again,
        pytest.raises(LaunchError, match=refused),
    ):
        with_store(again, "none")


def test_a_launch_that_goes_on_from_another_is_recorded_where_that_is_unless_told(
    tmp_path: Path,
) -> None:
    with new_launch(load_study(written(tmp_path)), tmp_path) as first:
        with_store(first, BARE)
    for given, used in ((None, BARE), ("none", "none")):
        with extended_launch("mine", tmp_path, first.id, budget=500) as launch:
            assert with_store(launch, given).notes["tracking_uri"] == used


def test_a_launch_of_an_older_version_goes_on_where_its_points_were_meant_for(
    tmp_path: Path,
) -> None:
    with new_launch(load_study(written(tmp_path)), tmp_path) as launch:
        about = {"launch_id": launch.id, "tracking_uri": BARE}
        Spool(launch.folder / "curves" / launch.id, about).close()
        assert with_store(launch, None).notes["tracking_uri"] == BARE


def test_another_store_is_refused_in_one_line_without_ray(tmp_path: Path) -> None:
    path, out = written(tmp_path), tmp_path / "out"
    with new_launch(load_study(path), out) as launch:
        with_store(launch, "none")
    done = invoke("run", path, "--storage", out, "--resume", uri=SECRET)
    assert done.exit_code == 2
    (line,) = done.output.splitlines()
    assert line.startswith(f"zotune: launch {launch.id} is recorded in none, and cannot go on in")
    assert "sesame" not in line


@pytest.mark.usefixtures("shared_ray")
def test_the_printed_command_finds_a_launch_whose_study_was_renamed(tmp_path: Path) -> None:
    path, out = written(tmp_path, space={"q": [12]}), tmp_path / "out"
    for smoke, kept in ((False, "other"), (True, "other-smoke")):
        study = load_study(path, settings=["name=other"])
        with new_launch(study.smoke() if smoke else study, out) as launch:
            typed = Request(str(path), ["name=other"], smoke, "none", out)
            words = shlex.split(resume_command(typed, with_store(launch, "none")))
        assert words[:3] == ["zotune", "run", kept]
        done = CliRunner().invoke(main, words[1:])
        assert done.exit_code == 0, done.output


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


SLOW: dict[str, Any] = {
    "name": "slow",
    "problem": {"name": "quadratic", "dim": 60},
    "budget": 2000,
    "report_every": 20,
    "replicates": 5,
    "space": {"q": [1, 2, 50]},
    "resources": {"cpu": 1},
}


class Session:
    """``zotune run`` in a process group of its own, as a terminal would start it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "slow.yaml"
        self.path.write_text(plain_study(**SLOW).to_yaml())
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self, *words: str, uri: str | None = "none", **environment: str
    ) -> subprocess.Popen[str]:
        program = [sys.executable, "-m", "zotune.cli", "run", str(self.path)]
        environment |= {k: v for k, v in os.environ.items() if k not in QUIET}
        options = ["--storage", str(self.folder / "out")]
        options += [] if uri is None else ["--tracking-uri", uri]
        self.started.append(
            subprocess.Popen(
                [*program, *options, *words],
                env=environment | {"TUNE_GLOBAL_CHECKPOINT_S": "0"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return self.started[-1]

    def launches(self) -> list[Path]:
        return sorted((self.folder / "out" / "slow").glob("*"))

    def running(self) -> dict[int, Path]:
        """Folders by the process that runs in them."""
        records = {f: f / "launch.json" for f in self.launches()}
        return {json.loads(r.read_text())["pid"]: f for f, r in records.items() if r.is_file()}

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture
def session(tmp_path: Path) -> Any:
    made = Session(tmp_path)
    yield made
    made.end()


def checkpoints(launch: Path) -> int:
    return len(list(launch.glob("*/checkpoint_*")))


def newest(launch: Path) -> float:
    """When the newest checkpoint of a launch was written."""
    return max(folder.stat().st_mtime for folder in launch.glob("*/checkpoint_*"))


def assert_undisturbed(launch: Path) -> None:
    """Every curve and every point is bit for bit that of a run in this process."""
    for q in (1, 2, 50):
        trial = max(launch.glob(f"*_q{q}"), key=lambda folder: folder.stat().st_mtime)
        run = zotune.load_run(max(trial.glob("checkpoint_*")))
        settings = {k: SLOW[k] for k in ("budget", "report_every", "replicates")}
        alone = reported(SLOW["problem"], **{**INSTRUMENT, **settings, "q": q})
        assert torch.equal(run.x, alone.x)
        assert untimed(run.rows) == alone.rows
        assert run.state.ledger == alone.state.ledger


@pytest.mark.long
def test_a_killed_driver_resumes_bit_for_bit_beside_another_launch(session: Session) -> None:
    victim, other = session.start("--json"), session.start("--json")
    wait_for(lambda: victim.pid in session.running())
    killed = session.running()[victim.pid]
    wait_for(lambda: checkpoints(killed) >= 3)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.communicate()
    wait_for(lambda: other.pid in session.running())
    resumed = session.start("--resume", "--json")
    outputs = [process.communicate(timeout=240) for process in (resumed, other)]
    assert resumed.returncode == 0, outputs[0]
    assert other.returncode == 0, outputs[1]
    found = [json.loads(out) for out, _ in outputs]
    assert found[0]["launch"] == killed.name != found[1]["launch"]
    assert [one["trials"] for one in found] == [3, 3]
    for launch in session.launches():
        assert_undisturbed(launch)


def assert_interrupted(process: subprocess.Popen[str], launch: Path) -> None:
    """The command has said how to go on, and nothing else; the launch says what has happened."""
    out, err = process.communicate()
    assert process.returncode == 130, (out, err)
    assert err == ""
    assert f"--resume {launch.name}" in out.splitlines()[-1]
    assert re.search(r"interrupted +│", out)  # in the table
    assert json.loads((launch / "launch.json").read_text())["state"] == "interrupted"


@pytest.mark.usefixtures("shared_ray")
def test_a_study_interrupted_twice_keeps_everything_and_ends_as_if_undisturbed(
    session: Session, store: str
) -> None:
    """First by Ctrl-C, then by SIGTERM, which counts as Ctrl-C however often it comes."""
    first, mark = session.start(uri=store), new_mark()
    wait_for(lambda: bool(session.launches()) and checkpoints(session.launches()[0]) >= 3)
    os.killpg(first.pid, signal.SIGINT)
    first.wait()
    (launch,) = session.launches()
    assert_interrupted(first, launch)
    assert {run.info.status for run in runs(store, "slow").values()} <= {"KILLED", "FINISHED"}
    saved = newest(launch)
    again = session.start("--resume", launch.name, uri=None, **mark)
    wait_for(lambda: newest(launch) > saved)
    again.send_signal(signal.SIGTERM)
    again.send_signal(signal.SIGTERM)
    again.wait()
    assert_interrupted(again, launch)
    wait_for(lambda: marked(mark) == [])
    done = invoke("run", session.path, "--storage", session.folder / "out", "--resume", uri=store)
    assert done.exit_code == 0, done.output
    assert "3/3 " in done.output
    assert_undisturbed(launch)
    recorded = runs(store, "slow")
    assert f"page: zotune ui slow --tracking-uri {store} (in" in done.output
    assert {run.info.status for run in recorded.values()} == {"FINISHED"}
    assert {len(history(store, run, "loss")) for run in recorded.values()} == {320}


@pytest.mark.long
def test_a_closed_terminal_is_taken_as_ctrl_c(session: Session) -> None:
    mark = new_mark()
    process = session.start(**mark)
    wait_for(lambda: bool(session.launches()) and checkpoints(session.launches()[0]) >= 3)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)
    process.wait()
    assert_interrupted(process, session.launches()[0])
    wait_for(lambda: marked(mark) == [])


def test_a_request_to_end_before_any_trial_says_how_to_go_on(session: Session) -> None:
    mark = new_mark()
    process = session.start(**mark)
    wait_for(lambda: process.pid in session.running())
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=240)
    (launch,) = session.launches()
    assert process.returncode == 130, (out, err)
    assert err == ""
    assert f"--resume {launch.name}" in out.splitlines()[-1]
    wait_for(lambda: marked(mark) == [])


class Locked(Gate):
    """A server that lets in nobody without the password."""

    def _forward(self, client: socket.socket, request: bytes) -> None:
        if b"Basic " + b64encode(b"me:open-sesame") in request:
            super()._forward(client, request)
        else:
            client.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.faults
def test_a_resumed_launch_takes_the_password_of_its_option_and_prints_none(
    session: Session, running_server: Server
) -> None:
    gate = Locked(running_server.port)
    uri = gate.uri.replace("//", "//me:open-sesame@")
    first = session.start(uri=uri)
    wait_for(lambda: bool(session.launches()) and checkpoints(session.launches()[0]) >= 3)
    os.killpg(first.pid, signal.SIGINT)
    out, err = first.communicate(timeout=240)
    (launch,) = session.launches()
    assert first.returncode == 130, (out, err)
    assert out.rstrip().endswith(f"--tracking-uri {gate.uri} --resume {launch.name}")
    other = session.start("--resume", launch.name, uri="none")
    assert "cannot go on in none" in other.communicate(timeout=240)[1]
    assert other.returncode == 2
    again = session.start("--resume", launch.name, uri=uri)
    said = again.communicate(timeout=240)
    assert again.returncode == 0, said
    assert "sesame" not in out + err + said[0] + said[1]
    assert f"page: {gate.uri}/#/experiments/" in said[0]
    recorded = runs(f"http://127.0.0.1:{running_server.port}", "slow")
    assert {run.info.status for run in recorded.values()} == {"FINISHED"}
    written = [path for path in session.folder.rglob("*") if path.is_file()]
    assert [path for path in written if b"open-sesame" in path.read_bytes()] == []
    gate.close()
