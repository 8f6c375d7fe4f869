"""The bench of growing studies, at a size that takes no time."""

from __future__ import annotations

import json
import sqlite3
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from zotune.bench import scale
from zotune.bench.scale_case import bytes_of, rate, rows_of, study_of
from zotune.cli import main
from zotune.loop import Loop
from zotune.objectives import build_any_problem
from zotune.runs.minimize import finish


@pytest.mark.parametrize(
    ("case", "trials", "replicates", "dim"),
    [
        (scale.MANY, 1000, 1, 20),
        (scale.REPLICATES, 4, 1000, 1000),
        (scale.DIMENSION, 4, 1, 10**6),
    ],
)
def test_a_case_has_as_many_trials_and_is_as_wide_as_it_says(
    case: str, trials: int, replicates: int, dim: int
) -> None:
    study = study_of(case, trials)
    assert (study.size, study.replicates, study.problem["dim"]) == (trials, replicates, dim)
    assert len({point["eta"] for point in study.trials}) == trials


def test_a_trial_of_a_million_coordinates_can_be_run() -> None:
    study = study_of(scale.DIMENSION, 4)
    config = study.configuration(study.trials[0])
    run = finish(Loop(config, build_any_problem(study.problem)))
    assert (run.spent, run.x.shape[-1]) == (study.budget, 10**6)


def test_a_rate_counts_events_between_the_first_and_the_last() -> None:
    assert rate([1.0, 1.5, 2.0, 3.0]) == 1.5
    assert rate([1.0, 1.0]) == 0.0


def test_files_are_counted_however_deep_they_lie(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "one").write_bytes(bytes(10))
    (tmp_path / "two").write_bytes(bytes(5))
    assert bytes_of(tmp_path) == 15


def test_only_trials_that_ended_are_counted_as_runs(tmp_path: Path) -> None:
    file = tmp_path / "mlflow.db"
    with sqlite3.connect(file) as made:
        made.execute("create table runs (run_uuid text, status text)")
        made.execute("create table tags (run_uuid text, key text, value text)")
        made.execute("create table metrics (run_uuid text)")
        made.executemany(
            "insert into runs values (?, ?)",
            [("a", "FINISHED"), ("b", "RUNNING"), ("c", "FINISHED")],
        )
        made.execute("insert into tags values ('c', 'zotune.kind', 'summary')")
        made.executemany("insert into metrics values (?)", [("a",), ("a",), ("b",)])
    assert rows_of(file) == (1, 3)


def test_a_case_that_fails_is_named_with_the_last_line_that_it_said() -> None:
    with pytest.raises(scale.CaseError, match=r"many of -1 trials, zotune, failed: .*\w"):
        scale._measured(scale.MANY, scale.OURS, -1)


@pytest.mark.long
def test_a_few_trials_are_measured_both_ways_in_processes_of_their_own() -> None:
    words = ["bench", "scale", "--trials", "4", "--no-wide", "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    ours, stock = json.loads(done.stdout)
    assert [found["way"] for found in (ours, stock)] == [scale.OURS, scale.STOCK]
    for found in (ours, stock):
        assert found["runs"] == found["trials"] == 4
        assert min(found["rows"], found["seconds"], found["disk_megabytes"]) > 0
    out = StringIO()
    Console(file=out, width=200).print(scale.table([scale.ScaleFigures(**ours)]))
    assert "late ≥ 0.8 × early" in out.getvalue()
