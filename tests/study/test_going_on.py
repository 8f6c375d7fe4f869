"""Launches that go on: after a kill, to a larger budget, in their own store."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import zotune
from tests.callbacks.conftest import runs
from tests.instrument import INSTRUMENT, plain_study
from tests.solo import reported
from tests.study.small import SMALL, invoke, written
from zotune.callbacks import sync
from zotune.callbacks.spool import Spool
from zotune.cli import main
from zotune.cli.next_command import resume_command
from zotune.cli.run_request import RunRequest
from zotune.errors import ConfigError
from zotune.objectives import complete_problem
from zotune.study import load_study
from zotune.study.carrying import only_best
from zotune.study.launch import LaunchError, extended_launch, new_launch, old_launch
from zotune.study.running import known_store, with_store
from zotune.study.tuning import bound_trainable


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_a_launch_killed_before_tune_saved_anything_starts_over(tmp_path: Path) -> None:
    path = written(tmp_path, space={"q": [12]})
    with new_launch(load_study(path), tmp_path / "out") as killed:
        (killed.folder / "experiment_state-2026.json").write_text('{"trial_data": [[')
    done = invoke("run", path, "--storage", tmp_path / "out", "--resume", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["launch"] == killed.id
    assert invoke("run", path, "--storage", tmp_path / "out", "--resume").exit_code == 2


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
@pytest.mark.parametrize("left", ["", "torn"])
def test_a_resumed_launch_needs_nothing_that_tune_has_saved(tmp_path: Path, left: str) -> None:
    """All trials had ended; only the launch had not said so."""
    path, options = written(tmp_path, space={"q": [1, 12]}), ("--storage", tmp_path / "out")
    before = json.loads(invoke("run", path, *options, "--json").stdout)
    folder = Path(before["folder"])
    for state in [*folder.glob("*-state-*.json"), *folder.glob("experiment_state-*.json")]:
        state.write_bytes(state.read_bytes()[:99]) if left else state.unlink()
    record = json.loads((folder / "launch.json").read_text())
    (folder / "launch.json").write_text(json.dumps(record | {"state": "interrupted"}))
    rows = {file: file.read_text() for file in folder.glob("*/result.json")}
    done = invoke("run", path, *options, "--resume", "--json")
    assert done.exit_code == 0, done.output
    after = json.loads(done.stdout)
    assert after["best"] == before["best"]
    assert after["spent"] == before["spent"]
    assert {file: file.read_text() for file in folder.glob("*/result.json")} == rows


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert "continue its winner: --only best --budget N" in more.output


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_a_larger_total_begins_what_was_left_out_and_counts_what_was_spent(tmp_path: Path) -> None:
    path = written(tmp_path, total=200, space={"estimator": ["avg", "align"], "q": [1, 5]})
    options = ("--storage", tmp_path / "out", "--json", "--no-report")
    first = json.loads(invoke("run", path, *options).stdout)
    assert first["spent"]["charged"] <= 200
    assert first["left_out"][-1] == "align q=5"
    assert first["failed"] == []
    done = invoke("run", path, *options, "--resume", first["launch"], "--total", "1000")
    assert done.exit_code == 0, done.output
    more = json.loads(done.stdout)
    assert more["left_out"] == []
    assert more["spent"]["before"] == first["spent"]["charged"]
    assert more["spent"]["charged"] + more["spent"]["before"] == 4 * 2 * 96
    assert more["spent"]["left"] == 1000 - 4 * 2 * 96


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_only_the_best_trial_goes_on_and_not_the_first(tmp_path: Path) -> None:
    path = written(tmp_path, space={"estimator": ["align"], "q": [1, 12], "eta": [0.01, 1.0]})
    options = ("--storage", tmp_path / "out", "--json", "--no-report")
    first = json.loads(invoke("run", path, *options).stdout)
    best = zotune.load_run(first["folder"])
    assert best.config.eta == 1  # the first trial has 0.01
    done = invoke("run", path, *options, "--resume", first["launch"], *MORE)
    assert done.exit_code == 0, done.output
    more = json.loads(done.stdout)
    run = zotune.load_run(more["folder"])
    assert (run.config.q, run.config.eta, run.spent) == (best.config.q, best.config.eta, 200)
    assert more["spent"]["charged"] == best.config.replicates * (200 - best.spent)


MORE = ("--budget", "200", "--only", "best")


def test_the_winner_of_a_race_that_chooses_everything_goes_on_so_whatever_the_study_fixes() -> None:
    fixed = {"update": "sgd", "step": "theory"}
    raced = plain_study(**SMALL | {"total": 900, "search": {"algorithm": "race"}, "fixed": fixed})
    winner = zotune.minimize(raced.config["problem"], budget=60)
    alone = only_best(raced, winner, 200)
    (point,) = alone.trials
    assert alone.configuration(point).method == "auto"
    with pytest.raises(ConfigError, match=r"needs --budget, more than the 60 .* got 50"):
        only_best(raced, winner, 50)


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
    refused = f"launch {launch.id} is recorded in {BARE}, and cannot continue in none; leave out"
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
    refused = f"zotune: launch {launch.id} is recorded in none, and cannot continue in"
    assert line.startswith(refused)
    assert "sesame" not in line


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_the_printed_command_finds_a_launch_whose_study_was_renamed(tmp_path: Path) -> None:
    path, out = written(tmp_path, space={"q": [12]}), tmp_path / "out"
    for smoke, kept in ((False, "other"), (True, "other-smoke")):
        study = load_study(path, settings=["name=other"])
        with new_launch(study.smoke() if smoke else study, out) as launch:
            typed = RunRequest(str(path), ["name=other"], smoke, "none", out)
            words = shlex.split(resume_command(typed, with_store(launch, "none")))
        assert words[:3] == ["zotune", "run", kept]
        done = CliRunner().invoke(main, words[1:])
        assert done.exit_code == 0, done.output
