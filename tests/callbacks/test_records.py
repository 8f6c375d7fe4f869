"""What a store is told of trials: names, params, points, each of them once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.registry import register_trainable

import zotune
from zotune.callbacks.curve_points import BATCH, batches
from zotune.callbacks.journal import Journal
from zotune.callbacks.records import (
    group_of,
    name_of,
    numbers_of,
    params_of,
    searched_by,
    settings_of,
    step_of,
)
from zotune.callbacks.session import describe
from zotune.callbacks.summary_run import note_of, rows_of, spending_of, status_of, table_of
from zotune.core.spending import Spending
from zotune.objectives import PROBLEMS
from zotune.study.points import located


def a_trial(
    trainable: type = zotune.ZOTrainable, row: dict[str, Any] | None = None, **changes: Any
) -> Trial:
    register_trainable(trainable.__name__, trainable)
    known: dict[str, Any] = {
        "config": {"problem": {"name": "quadratic"}, "budget": 100, "estimator": "align", "q": 5},
        "evaluated_params": {"q": 5},
    }
    trial = Trial(trainable.__name__, trial_id="t1", **(known | changes))
    trial.run_metadata.last_result = row or {}
    return trial


class Theirs(tune.Trainable):
    """A trainable that knows nothing of us."""


def test_params_are_the_whole_configuration_of_our_trainables() -> None:
    params = params_of(settings_of(a_trial()))
    assert params["problem.name"] == "quadratic"
    assert params["estimator"] == "align"
    assert params["directions"] == "gaussian"
    assert params["problem.condition"] == str(PROBLEMS["quadratic"].defaults["condition"])
    assert "curve" not in params


def test_params_have_the_problem_s_options_that_equal_their_defaults() -> None:
    """A study's file may state them, and passes on only what differs."""
    problem = located({"name": "language-model", "batch": 16, "train_size": 64})
    assert "batch" not in problem
    trial = a_trial(config={"problem": problem, "budget": 100, "estimator": "avg", "q": 1})
    params = params_of(settings_of(trial))
    assert (params["problem.batch"], params["problem.train_size"]) == ("16", "64")
    assert params["problem.model"] == "tiny-qwen3"


def test_names_say_estimator_and_q_and_what_else_was_searched() -> None:
    assert named({"q": 5}) == "align q=5"
    assert named({"q": 5, "problem/dim": 30, "eta": 0.123456}) == "q=5 dim=30 eta=0.1235"
    assert named({"lr": 0.5}) == "lr=0.5"


def test_names_begin_with_what_differs_as_pages_cut_off_what_is_long() -> None:
    assert named({"problem/l2": 0.25}) == "l2=0.25"
    assert named({"problem/l2": 0.25, "estimator": "align"}) == "align l2=0.25"
    assert named({"model/lr": 1, "head/lr": 2}) == "model.lr=1 head.lr=2"


def test_what_a_searcher_hands_over_besides_what_it_has_drawn_is_in_no_name() -> None:
    trial = a_trial(
        Theirs, config={"lr": 0.5, "width": 8}, evaluated_params={"lr": 0.5, "width": 8}
    )
    assert Journal(constants=["width"]).start(trial)[0]["name"] == "lr=0.5"


def named(searched: dict[str, Any], axes: list[str] | None = None, **config: Any) -> str:
    """The name of a trial whose Tuner has drawn some settings."""
    trial = a_trial(evaluated_params=searched)
    settings = settings_of(trial) | config
    return name_of(trial, settings, searched_by(trial, settings, axes or ()))


def test_groups_say_estimator_and_q_and_the_update_where_it_was_searched() -> None:
    trial = a_trial(evaluated_params={"q": 5, "eta": 0.1})
    assert grouped(trial) == "align q=5"
    searched = {"update": "adam", "eta": 0.1}
    trial = a_trial(
        config={"problem": "quadratic", "budget": 100, "estimator": "align", "q": 5, **searched}
    )
    assert grouped(trial, ["update", "eta"]) == "align q=5 adam"
    assert named({"q": 5}, ["update", "eta"], **searched) == "q=5 adam eta=0.1"
    assert group_of({"lr": 1}, {"lr": 1}) == ""


def grouped(trial: Trial, axes: list[str] | None = None) -> str:
    """The group of a trial."""
    settings = settings_of(trial)
    return group_of(settings, searched_by(trial, settings, axes or ()))


def test_replicates_that_are_trials_are_a_group_of_all_that_was_searched_beside_them() -> None:
    searched = {"q": 5, "eta": 0.1, "replicate": 2}
    trial = a_trial(evaluated_params=searched)
    assert grouped(trial) == "align q=5 eta=0.1"


def test_a_rule_for_q_is_said_by_its_name() -> None:
    growth = {"rule": "growth", "first": 2, "factor": 2.0, "most": 8}
    settings = {"estimator": "align", "q": growth}
    name = name_of(a_trial(), settings, {"q": growth})
    assert name == group_of(settings, {"q": growth}) == "align q=growth"


def test_a_step_that_was_searched_is_kept_as_a_logarithm_too() -> None:
    config = {"problem": "quadratic", "budget": 100, "step": "constant", "eta": 0.01}
    trial = a_trial(config=config, evaluated_params={"eta": 0.01}, row={"spent": 1})
    assert Journal().end(trial, "FINISHED")[-1]["final"] == {"log10_eta": -2.0}
    fixed = a_trial(config=config, evaluated_params={}, row={"spent": 1})
    assert Journal().end(fixed, "FINISHED")[-1]["final"] == {}
    assert Journal(axes=["eta"]).end(fixed, "FINISHED")[-1]["final"] == {"log10_eta": -2.0}


def test_credentials_in_a_configuration_do_not_become_params() -> None:
    trial = a_trial(Theirs, config={"db": "postgresql://me:pw@host/x"})
    assert params_of(settings_of(trial)) == {"db": "postgresql://host/x"}


def test_metrics_are_the_numbers_of_the_study_and_nothing_else() -> None:
    row = {"loss": 1, "pid": 7, "time_total_s": 2.0, "done": True, "config": {"q": 1}, "spent": 3}
    row |= {"info": {"norm": 2.5}, "status": "running", "gap": None, "timestamp": 1}
    assert numbers_of(row) == {"loss": 1.0, "info/norm": 2.5}
    assert step_of(row) == 3
    assert step_of({"timesteps_total": 8, "training_iteration": 2}) == 8
    assert step_of({"timesteps_total": None, "training_iteration": 2}) == 2


def test_a_point_that_is_reported_again_is_written_once() -> None:
    journal, trial = Journal(), a_trial()
    first = journal.result(trial, {}, [{"spent": s, "loss": s} for s in (0, 5, 10)])
    assert [r["kind"] for r in first] == ["started", "points"]
    again = journal.result(trial, {}, [{"spent": s, "loss": -s} for s in (5, 10, 15)])
    assert again[0]["points"] == [[15, {"loss": -15.0}]]
    assert journal.result(trial, {"spent": 15, "loss": 0}, None) == []
    restored = Journal([*first, *again])
    assert restored.is_open(trial)
    assert restored.result(trial, {"spent": 15, "loss": 0}, None) == []
    assert restored.result(trial, {"spent": 16, "loss": 0}, None)


def test_what_a_trial_makes_again_after_a_kill_is_counted_also_by_a_new_driver() -> None:
    journal, trial = Journal(), a_trial(row={"spent": 40, "loss": 1.0, "status": "exhausted"})
    records = []
    for spent in (10, 20, 30, 20, 30):
        row = {"spent": spent, "loss": 1.0}
        records += journal.result(trial, row, [row])
    journal = Journal(records)
    for spent in (30, 40):  # the first two repetitions have not been written down
        row = {"spent": spent, "loss": 1.0}
        records += journal.result(trial, row, [row])
    records += journal.end(trial, "FINISHED")
    assert records[-1]["final"]["repeated"] == 10
    started = {**records[0], "params": {"replicates": "3", "count": "directions"}}
    spending = spending_of([started, *records[1:]])
    assert (spending.charged, spending.repeated) == (3 * 40, 3 * 10)
    assert "repeated" not in Journal().end(trial, "FINISHED")[-1]["final"]


def test_a_trial_that_is_run_again_after_its_end_keeps_the_values_of_its_first_end() -> None:
    journal, trial = Journal(), a_trial(row={"spent": 40, "loss": 1.0, "seconds": 2.0})
    rows = [{"spent": spent, "loss": 1.0} for spent in (20, 40)]
    records = [record for row in rows for record in journal.result(trial, row, [row])]
    records += journal.end(trial, "FINISHED")
    trial.run_metadata.last_result = {"spent": 40, "loss": 1.0, "seconds": 3.0}
    restored = Journal(records)
    for row in rows:
        restored.result(trial, row, [row])
    again = restored.end(trial, "FINISHED")[-1]["final"]
    assert again == records[-1]["final"] | {"repeated": 40}
    trial.run_metadata.last_result = {"spent": 80, "loss": 0.5, "seconds": 9.0}
    assert restored.end(trial, "FINISHED")[-1]["final"]["seconds"] == 9.0  # it went on


def test_a_trial_that_is_run_again_twice_keeps_what_its_first_end_said_was_repeated() -> None:
    journal, trial = Journal(), a_trial(row={"spent": 20, "loss": 1.0})
    ends = []
    for _ in range(3):
        journal.result(trial, {"spent": 20, "loss": 1.0}, [{"spent": 20, "loss": 1.0}])
        ends.append(journal.end(trial, "FINISHED")[-1]["final"])
    assert [end.get("repeated") for end in ends] == [None, 20, 20]


def test_a_trial_that_ends_again_without_its_rows_keeps_its_first_end() -> None:
    journal, trial = Journal(), a_trial(row={"spent": 20, "loss": 1.0, "status": "running"})
    journal.result(trial, {"spent": 20, "loss": 1.0}, [{"spent": 20, "loss": 1.0}])
    first = journal.end(trial, "FINISHED")[-1]
    trial.run_metadata.last_result = {}
    assert journal.end(trial, "FINISHED")[-1] | {"time": 0} == first | {"time": 0}


def test_what_is_not_finite_stays_out_of_the_curve_and_is_named() -> None:
    inf, nan = float("inf"), float("nan")
    curve = [{"spent": 1, "loss": 1.0}, {"spent": 2, "loss": inf}, {"spent": 3, "loss": nan}]
    (_, record) = Journal().result(a_trial(), {}, curve)
    assert record["points"] == [[1, {"loss": 1.0}], [2, {}], [3, {}]]
    assert record["nonfinite"] == {"loss": 2}


def test_a_trial_that_ended_by_itself_is_finished_whatever_ended_the_experiment() -> None:
    def end(said: str, **row: Any) -> tuple[str, str]:
        record = Journal().end(a_trial(row={"spent": 1} | row), said)[-1]
        return record["status"], record["tags"]["zotune.status"]

    assert end("KILLED", status="running") == ("KILLED", "interrupted")
    assert end("KILLED", status="exhausted") == ("FINISHED", "exhausted")
    assert end("FINISHED", status="running") == ("FINISHED", "stopped early")
    assert end("FINISHED", status="diverged") == ("FINISHED", "diverged")
    assert end("FINISHED") == ("FINISHED", "finished")
    assert end("KILLED", done=True) == ("FINISHED", "finished")
    assert end("FAILED", status="running") == ("FAILED", "failed")


@given(st.lists(st.integers(0, 400), max_size=30))
def test_batches_hold_every_step_whole_and_never_too_many_values(sizes: list[int]) -> None:
    points = [(step, {f"m{k}": 0.0 for k in range(size)}) for step, size in enumerate(sizes)]
    found = list(batches(points))
    assert [point for batch in found for point in batch] == points
    assert all(sum(len(values) for _, values in batch) <= BATCH for batch in found)


def test_the_summary_counts_what_became_of_trials_and_names_the_best() -> None:
    def ended(trial: str, status: str, loss: float) -> dict[str, Any]:
        record = {"kind": "ended", "trial": trial, "status": status, "step": 9}
        return record | {"final": {"loss": loss}}

    started = [{"kind": "started", "trial": t, "name": f"align q={t}"} for t in "123"]
    rows = rows_of([*started, ended("1", "FINISHED", 2.0), ended("2", "FAILED", 1.0)])
    assert [row["trial"] for row in rows] == ["1", "2", "3"]
    spent = Spending(3, 27, 30, 4, 9, "directions")
    note = note_of({"experiment": "study", "launch_id": "l", "question": "Why?"}, rows, spent)
    assert (
        "Spent 27 directions in all, by 3 trials, which took 30 evaluations; "
        "not charged: 4 evaluations to look at the loss and "
        "9 directions repeated after failures." in note
    )
    assert "1 failed, 1 finished, 1 killed" in note
    assert "Lowest loss: **align q=1** with 2" in note  # of those that did not fail
    assert "Why?" in note
    assert table_of(rows).splitlines()[0].startswith("name,trial,status")
    assert status_of(rows) == "FAILED"
    assert status_of(rows[2:]) == "KILLED"
    assert status_of([]) == "FINISHED"


def test_a_launch_of_a_study_keeps_its_id_and_brings_its_file(tmp_path: Path) -> None:
    launch = tmp_path / "convex" / "20260102-030405-abcd"
    launch.mkdir(parents=True)
    other = describe(launch, "mine_2026-01-02_03-04-05", {"question": None})
    assert other["experiment"] == "mine"
    assert other["launch_id"].startswith("mine_2026-01-02_03-04-05-")
    (launch / "study.yaml").write_text("name: convex")
    found = describe(launch, launch.name, {"tags": {}, "experiment": None})
    assert found["launch_id"] == launch.name
    assert (found["experiment"], found["study"]) == ("convex", "name: convex")
    assert describe(launch, launch.name, {"experiment": "given"})["experiment"] == "given"
