"""The table of a launch: which trials are replicates of one configuration, and which are copies."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure
from rich.console import Console

import zotune
from zotune.cli.summary import MOST_DRAWN, Entry, best_entries, best_table, draw, entries
from zotune.core.names import STATE_FILE
from zotune.objectives import complete_problem
from zotune.study import Study

STUDY = Study(name="mine", problem={"name": "quadratic", "dim": 10}, budget=50, space={"q": [1, 5]})


def result(trial: str, loss: float, spent: int = 50, **config: Any) -> Any:
    row = {"loss": loss, "loss_std": 0.5, "gap": None, "spent": spent, "steps": spent}
    metrics = row | {"status": "exhausted" if spent == 50 else "running", "trial_id": trial}
    shared = {"estimator": "avg", "q": 5, "seed": 0, "replicate": 0, "replicates": 3}
    return SimpleNamespace(error=None, metrics=metrics, config=shared | config)


def summed(*results: Any, study: Study = STUDY) -> list[Entry]:
    launch = SimpleNamespace(study=study)
    outcome: Any = SimpleNamespace(launch=launch, results=list(results), interrupted=False)
    return entries(outcome)


def test_copies_of_a_trial_are_no_replicates_and_leave_its_spread_alone() -> None:
    (entry,) = summed(result("a", 2.0), result("b", 2.0))
    assert (entry.loss, entry.loss_std, entry.trials) == (2.0, 0.5, ("a",))


def test_of_copies_the_one_that_went_furthest_counts() -> None:
    (entry,) = summed(result("a", 9.0, spent=10), result("b", 2.0), result("c", 2.0))
    assert (entry.loss, entry.status, entry.trials) == (2.0, "exhausted", ("b",))


def test_trials_of_other_replicates_are_put_together() -> None:
    one, other = (result(name, loss, replicate=at) for at, (name, loss) in enumerate(PAIR))
    (entry,) = summed(one, other, one)
    assert (entry.loss, entry.loss_std, entry.trials) == (2.0, 2**0.5, ("a", "b"))


PAIR = (("a", 1.0), ("b", 3.0))


def shown(*results: Any) -> str:
    out = StringIO()
    Console(file=out, width=100).print(best_table(summed(*results), "best"))
    return out.getvalue()


def test_a_spread_is_shown_of_several_replicates_only() -> None:
    assert "± std" not in shown(result("a", 2.0, replicates=1))
    assert "± std" in shown(result("a", 2.0, replicates=2))
    pair = (result(name, loss, replicate=at, replicates=1) for at, (name, loss) in enumerate(PAIR))
    assert "± std" in shown(*pair)


def test_accuracy_is_shown_where_it_is_known() -> None:
    one = result("a", 2.0)
    assert "accuracy" not in shown(one)
    one.metrics["accuracy"] = 0.8125
    assert "accuracy" in shown(one)
    assert "0.812" in shown(one)


def test_a_trial_above_its_start_is_not_called_best_without_saying_so() -> None:
    one = result("a", 244.0)
    assert re.search(r"best +│", shown(one))
    one.metrics |= {"start_loss": 7.5, "L": 0.44, "L_estimated": True}
    assert "best, above its start, L estimated (0.44)" in shown(one)
    (entry,) = summed(one)
    assert (entry.start_loss, entry.smoothness, entry.smoothness_estimated) == (7.5, 0.44, True)
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
    best = best_entries(summed(*LOW_AND_HIGH, study=SEEDS))
    assert [(entry.instance, entry.q, entry.trials) for entry in best] == [
        ({"problem.seed": 9}, 1, ("d",)),
        ({"problem.seed": 9}, 5, ("f",)),
        ({"problem.seed": 10}, 1, ("a",)),
        ({"problem.seed": 10}, 5, ("b",)),
    ]


def cells(table: str) -> list[list[str]]:
    return [line.strip("┃│").replace("│", "┃").split("┃") for line in table.splitlines()]


def test_the_table_marks_the_best_of_an_estimator_on_each_instance() -> None:
    out = StringIO()
    best = best_entries(summed(*LOW_AND_HIGH, study=SEEDS))
    Console(file=out, width=100).print(best_table(best, "best"))
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
    Console(file=out, width=100).print(best_table(summed(*LOW_AND_HIGH[:2], study=SEEDS), "best"))
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
            run = zotune.minimize(problem, estimator="avg", q=q, budget=50)
            one = result(f"{dim}-{q}", run.rows[-1]["loss"], problem=problem, q=q)
            one.checkpoint = tmp_path / f"{dim}-{q}"
            one.run = run
            results.append(one)
    figures: list[Figure] = []
    monkeypatch.setattr("zotune.runs.run.load_run", lambda one: one.run)
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: figures.append(self))
    study = STUDY.model_copy(update={"space": {"q": [1, 5], "problem.dim": list(dims)}})
    launch = SimpleNamespace(study=study, folder=tmp_path)
    outcome: Any = SimpleNamespace(launch=launch, results=results, interrupted=False)
    draw(outcome, best_entries(entries(outcome)))
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
        zotune.minimize(problem, estimator="align", q=10, budget=budget, checkpoint=path)
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
