"""The table of a launch: which trials are replicates of one configuration, and which are copies."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure
from ray.tune import Checkpoint, Result
from rich.console import Console

import zotune
from tests.instrument import minimize
from zotune.cli.summary import MOST_DRAWN, Summary, best_table, print_whole
from zotune.core.names import STATE_FILE
from zotune.core.settings import PROBLEM
from zotune.objectives import complete_problem
from zotune.results.configurations import Configuration
from zotune.study import Study

STUDY = Study(name="mine", problem={"name": "quadratic", "dim": 10}, budget=50, space={"q": [1, 5]})


def result(trial: str, loss: float, spent: int = 50, **config: Any) -> Any:
    row = {"loss": loss, "loss_std": 0.5, "gap": None, "spent": spent, "steps": spent}
    metrics = row | {"status": "exhausted" if spent == 50 else "running", "trial_id": trial}
    shared = {"estimator": "avg", "q": 5, "seed": 0, "replicate": 0, "replicates": 3}
    path = f"/results/mine/launch/ZOTrainable_{trial}_00000_0_q=5_date"
    found = {"error": None, "metrics": metrics, "config": shared | config, "path": path}
    return SimpleNamespace(**found, checkpoint=None)


def summary(*results: Any, study: Study = STUDY, interrupted: bool = False) -> Summary:
    launch = SimpleNamespace(study=study, notes={}, folder=Path("nowhere"))
    outcome: Any = SimpleNamespace(launch=launch, results=list(results), interrupted=interrupted)
    return Summary.of(outcome)


def ids(one: Configuration) -> tuple[str, ...]:
    return tuple(trial.id for trial in one.trials)


def test_copies_of_a_trial_are_no_replicates_and_leave_its_spread_alone() -> None:
    (one,) = summary(result("a", 2.0), result("b", 2.0)).best
    assert (one.last("loss"), one.last("loss_std"), ids(one)) == (2.0, 0.5, ("a",))


def test_of_copies_the_one_that_went_furthest_counts() -> None:
    (one,) = summary(result("a", 9.0, spent=10), result("b", 2.0), result("c", 2.0)).best
    assert (one.last("loss"), one.status, ids(one)) == (2.0, "exhausted", ("b",))


def test_trials_of_other_replicates_are_put_together() -> None:
    one, other = (result(name, loss, replicate=at) for at, (name, loss) in enumerate(PAIR))
    (both,) = summary(one, other, one).best
    assert (both.last("loss"), ids(both), both.replicates) == (2.0, ("a", "b"), 6)
    within, between = 2 * 2 * 0.5**2, 3 * 1.0 + 3 * 1.0
    assert both.last("loss_std") == pytest.approx(((within + between) / 5) ** 0.5)


PAIR = (("a", 1.0), ("b", 3.0))


def test_the_best_trial_has_the_lowest_loss_even_if_it_was_stopped_and_never_diverged() -> None:
    diverged = result("c", 0.5, eta=9)
    diverged.metrics["status"] = "diverged"
    (one,) = summary(result("a", 2.0, eta=1), result("b", 1.0, spent=20, eta=2), diverged).best
    assert (ids(one), one.status) == (("b",), "stopped early")


def test_what_all_trials_spent_is_told_with_what_was_only_looked_at_and_made_again(
    tmp_path: Path,
) -> None:
    one, other = result("a", 2.0, count="directions"), result("b", 1.0, spent=20, eta=2)
    for row in (one.metrics, other.metrics):
        row |= {"evaluations": row["spent"] + 1, "monitored": 3, "training_iteration": 4}
    one.metrics["iterations_since_restore"] = 4
    other.metrics["iterations_since_restore"] = 1
    other.path = str(tmp_path)
    rows = "\n".join(json.dumps({"spent": spent}) for spent in (5, 10, 15, 10, 15, 20))
    (tmp_path / "result.json").write_text(rows)
    found = summary(one, other)
    assert asdict(found.spending) == {
        "total": None,
        "before": 0,
        "reserved": 0,
        "trials": 2,
        "charged": 3 * 70,
        "evaluations": 3 * 72,
        "monitored": 3 * 6,
        "repeated": 3 * 10,
        "count": "directions",
    }
    assert found.spent == (
        "spent 210 directions in all, by 2 trials, which took 216 evaluations; "
        "not charged: 18 evaluations to look at the loss and "
        "30 directions repeated after failures"
    )


def test_a_table_in_a_pipe_has_all_of_its_columns() -> None:
    settings = {key: f"a value of {key}" for key in ("directions", "schedule", "difference")}
    study = STUDY.model_copy(update={"space": {key: [] for key in settings}})
    table = summary(result("a", 0.5, spent=20, **settings), study=study).table()
    for width, terminal in ((60, False), (400, False), (60, True)):
        out = StringIO()
        console = Console(file=out, width=width, force_terminal=terminal, color_system=None)
        print_whole(console, table)
        whole = (
            "a value of difference" in out.getvalue() and "best, stopped early" in out.getvalue()
        )
        assert whole is not terminal
        assert console.width == width


def shown(*results: Any) -> str:
    out = StringIO()
    Console(file=out, width=100).print(summary(*results).table())
    return out.getvalue()


def test_a_spread_is_shown_of_several_replicates_only() -> None:
    assert "± std" not in shown(result("a", 2.0, replicates=1))
    assert "± std" in shown(result("a", 2.0, replicates=2))
    pair = (result(name, loss, replicate=at, replicates=1) for at, (name, loss) in enumerate(PAIR))
    assert "± std" in shown(*pair)


def test_every_metric_that_trials_report_is_shown() -> None:
    one = result("a", 2.0)
    assert "accuracy" not in shown(one)
    one.metrics["accuracy"] = 0.8125
    assert "accuracy" in shown(one)
    assert "0.812" in shown(one)
    one.metrics["hits"] = 7
    found = summary(one)
    assert found.best[0].metrics == {"accuracy": 0.8125, "hits": 7.0}
    assert "hits" in shown(one)


def test_headings_are_whole_at_80_columns_and_what_is_always_zero_is_left_out() -> None:
    told = result("a", 0.77421, eta=0.01, update="adam")
    told.metrics |= {"accuracy": 0.49, "train_loss": 0.668, "unmoved": 0.0, "start_loss": 0.6}
    study = Study(**(STUDY.to_dict() | {"space": {"q": [1, 5], "eta": [0.01]}}))
    out = StringIO()
    Console(file=out, width=80).print(summary(told, study=study).table())
    for heading in ("estimator", "eta", "accuracy", "train_loss", "steps"):
        assert heading in out.getvalue()
    assert "unmoved" not in out.getvalue()


def test_a_trial_above_its_start_is_not_called_best_without_saying_so() -> None:
    one = result("a", 244.0)
    one.metrics["start_loss"] = 300.0
    assert re.search(r"best +│", shown(one))
    one.metrics |= {"start_loss": 7.5, "L": 0.44, "L_estimated": True}
    assert "best, above its start, L estimated (0.44)" in shown(one)
    (best,) = summary(one).best
    assert (best.start_loss, best.estimated_smoothness) == (7.5, 0.44)
    one.metrics |= {"start_loss": 300.0, "L_estimated": False}
    assert re.search(r"best +│", shown(one))


SEEDS = STUDY.model_copy(update={"space": {"q": [1, 5], "eta": [1, 2], "problem.seed": [0, 10, 9]}})


def on_seed(trial: str, loss: float, seed: int, **config: Any) -> Any:
    problem = {"name": "quadratic", "dim": 10, "seed": seed}
    return result(trial, loss, problem=problem, **{"eta": 1} | config)


LOW_AND_HIGH = (
    on_seed("a", 3.0, 10, q=1),
    on_seed("b", 4.0, 10, q=5),
    on_seed("c", 5.0, 10, q=5, eta=2),
    on_seed("d", -9.0, 9, q=1),
    on_seed("e", -8.0, 9, q=1, eta=2),
    on_seed("f", -10.0, 9, q=5),
)


def test_losses_are_compared_within_one_instance_of_the_problem() -> None:
    best = summary(*LOW_AND_HIGH, study=SEEDS).best
    assert [(one.settings[f"{PROBLEM}seed"], one.q, ids(one)) for one in best] == [
        (9, 1, ("d",)),
        (9, 5, ("f",)),
        (10, 1, ("a",)),
        (10, 5, ("b",)),
    ]


def cells(table: str) -> list[list[str]]:
    return [line.strip("┃│").replace("│", "┃").split("┃") for line in table.splitlines()]


def test_the_table_marks_the_best_of_an_estimator_on_each_instance() -> None:
    out = StringIO()
    Console(file=out, width=100).print(summary(*LOW_AND_HIGH, study=SEEDS).table())
    rows = [[cell.strip() for cell in row] for row in cells(out.getvalue()) if len(row) > 1]
    assert rows[0][:4] == ["problem.seed", "estimator", "q", "eta"]
    assert [(row[0], row[2], row[-1]) for row in rows[1:]] == [
        ("9", "1", ""),
        ("9", "5", "best"),
        ("10", "1", "best"),
        ("10", "5", ""),
    ]


def test_an_option_of_the_problem_with_one_value_stands_where_other_settings_do() -> None:
    out = StringIO()
    two = summary(*LOW_AND_HIGH[:2], study=SEEDS)
    Console(file=out, width=100).print(best_table(two.best, "best", two.searched))
    header = next(row for row in cells(out.getvalue()) if len(row) > 1)
    assert [cell.strip() for cell in header][:4] == ["estimator", "q", "eta", "problem.seed"]


def drawn(
    dims: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[int], str]:
    """Titles of the panels, how many curves each has, and what stands above all."""
    results = []
    for dim in dims:
        for q in (1, 5):
            problem = {"name": "quadratic", "dim": dim}
            run = minimize(problem, estimator="avg", q=q, budget=50)
            one = result(f"{dim}-{q}", run.rows[-1]["loss"], problem=problem, q=q)
            path = tmp_path / f"{dim}-{q}" / STATE_FILE
            minimize(problem, estimator="avg", q=q, budget=50, checkpoint=path)
            one.checkpoint = Checkpoint.from_directory(path.parent)
            results.append(one)
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: figures.append(self))
    study = STUDY.model_copy(update={"space": {"q": [1, 5], "problem.dim": list(dims)}})
    found = summary(*results, study=study)
    found.outcome.launch.folder = tmp_path  # type: ignore[misc]
    found.draw()
    axes = [axis for axis in figures[0].axes if axis.get_visible()]
    above = figures[0].get_suptitle()
    return [axis.get_title() for axis in axes], [len(axis.lines) for axis in axes], above


def test_curves_of_an_instance_have_a_panel_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = drawn(range(5, 6), tmp_path, monkeypatch)
    assert one == (["avg"], [2], "")
    two = drawn(range(5, 7), tmp_path, monkeypatch)
    assert two == (["avg, dim = 5", "avg, dim = 6"], [2, 2], "")


def test_of_many_instances_the_first_are_drawn_and_the_figure_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles, _, above = drawn(range(5, 6 + MOST_DRAWN), tmp_path, monkeypatch)
    assert len(titles) == MOST_DRAWN
    assert above == f"the first {MOST_DRAWN} of {MOST_DRAWN + 1} problems"


DEEP, SHALLOW = ({"name": "quadratic", "dim": 10, "seed": seed} for seed in (2, 1))


def launched(folder: Path, *runs: tuple[Any, int]) -> Path:
    """A launch's folder with a trial for each problem and budget."""
    for at, (problem, budget) in enumerate(runs):
        trial = folder / f"trial_{at}" / "checkpoint_000000"
        trial.mkdir(parents=True)
        path = trial / STATE_FILE
        minimize(problem, estimator="align", q=10, budget=budget, checkpoint=path)
    return folder


def test_the_best_run_of_several_problems_is_the_nearest_to_its_own_minimum(
    tmp_path: Path,
) -> None:
    folder = launched(tmp_path, (DEEP, 1000), (SHALLOW, 1000))
    ends = [zotune.load_run(folder / f"trial_{at}").rows[-1] for at in (0, 1)]
    assert ends[0]["loss"] < ends[1]["loss"]
    assert ends[0]["gap"] > ends[1]["gap"]
    assert zotune.load_run(folder).config.problem == complete_problem(SHALLOW)


def test_the_best_run_has_the_lowest_loss_where_a_minimum_is_not_known(tmp_path: Path) -> None:
    unknown = zotune.objective(lambda x: (x**2).sum() + 1, 10)
    assert unknown.minimum is None
    folder = launched(tmp_path, (unknown, 100), (SHALLOW, 1000), (DEEP, 1000))
    assert zotune.load_run(folder).config.problem == complete_problem(DEEP)


def test_a_trial_whose_rows_went_with_a_killed_driver_is_told_by_its_checkpoint(
    tmp_path: Path,
) -> None:
    trial = tmp_path / "a1b2c_00000_avg_q5"
    file = trial / "checkpoint_000000" / STATE_FILE
    file.parent.mkdir(parents=True)
    run = minimize("quadratic", estimator="avg", q=5, budget=50, checkpoint=file)
    lost = Result(metrics=None, checkpoint=None, error=None, path=str(trial))
    found = summary(lost)
    assert found.failed == []
    (one,) = found.best
    assert (one.last("loss"), ids(one)) == (run.rows[-1]["loss"], ("a1b2c_00000",))
    assert (one.settings["estimator"], one.settings["q"]) == ("avg", 5)


def test_a_trial_without_rows_or_checkpoint_has_failed(tmp_path: Path) -> None:
    lost = Result(metrics=None, checkpoint=None, error=None, path=str(tmp_path / "a1b2c_00000_avg"))
    assert [trial.status for trial in summary(lost).failed] == ["failed"]


def test_a_trial_that_was_not_begun_has_not_failed() -> None:
    unbegun = Result({"trial_id": "a1b2c_00001"}, None, None, path="/nowhere/a1b2c_00001_avg_q5")
    found = summary(result("a", 2.0), unbegun)
    assert [trial.id for trial in found.trials] == ["a"]
    assert found.failed == []
