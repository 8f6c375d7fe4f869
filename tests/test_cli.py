"""The command line, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from zotune.blocksizes import BLOCK_SIZES
from zotune.cli import main
from zotune.cli.comparison import FIGURES
from zotune.core.differences import DIFFERENCES
from zotune.directions import DIRECTIONS
from zotune.estimators import ESTIMATORS
from zotune.methods import METHODS
from zotune.objectives import PROBLEMS
from zotune.steps import STEPS
from zotune.study.studyfile import shipped_studies
from zotune.updates import UPDATES


def test_list_shows_every_entry_with_its_formula() -> None:
    shown = CliRunner().invoke(main, ["list"]).output
    for word in (
        "avg",
        "align-diag",
        "U (UᵀU)⁻¹ v",
        "orthogonal",
        "central",
        "sqrt-decay",
        "quadratic",
    ):
        assert word in shown


def test_list_shows_studies_with_their_questions() -> None:
    shown = CliRunner().invoke(main, ["list"]).output
    assert "strongly-convex-tuned-500" in shown
    assert "Does everything work on this machine?" in shown


def test_list_shows_one_kind_alone() -> None:
    shown = CliRunner().invoke(main, ["list", "studies"]).output
    assert "strongly-convex-tuned-500" in shown
    assert "sqrt-decay" not in shown
    kinds = json.loads(CliRunner().invoke(main, ["list", "blocksizes", "--json"]).output)
    assert list(kinds) == ["block sizes"]


def test_every_cell_is_one_line() -> None:
    """A table of the site would end at a second."""
    entries = json.loads(CliRunner().invoke(main, ["list", "--json"]).output)
    cells = [cell for rows in entries.values() for row in rows for cell in row.values()]
    assert [cell for cell in cells if "\n" in cell] == []


def test_list_as_json_names_everything_that_is_registered() -> None:
    entries = json.loads(CliRunner().invoke(main, ["list", "--json"]).output)
    named = {kind: [entry["name"] for entry in rows] for kind, rows in entries.items()}
    del named["settings"]
    assert named == {
        "studies": list(shipped_studies()),
        "methods": list(METHODS),
        "estimators": list(ESTIMATORS),
        "directions": list(DIRECTIONS),
        "differences": list(DIFFERENCES),
        "updates": [*UPDATES, "auto"],
        "steps": list(STEPS),
        "block sizes": list(BLOCK_SIZES),
        "problems": list(PROBLEMS),
    }
    formulas = {entry["name"]: entry["v"] for entry in entries["differences"]}
    assert formulas["central"] == "(f(x + mu u) − f(x − mu u)) / 2mu"


def test_compare_prints_its_table_and_writes_its_figure(tmp_path: Path) -> None:
    figure = tmp_path / "deep" / "compare.png"
    done = CliRunner().invoke(
        main, ["compare", "--dim", "20", "--budget", "200", "--replicates", "2", "-o", str(figure)]
    )
    assert done.exit_code == 0, done.output
    assert done.output.count("best") == 2
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_bad_input_is_one_line_and_exit_code_2() -> None:
    done = CliRunner().invoke(main, ["compare", "--dim", "0"])
    assert done.exit_code == 2
    assert done.output.strip() == "zotune: problem.dim must be a whole number of at least 1, got 0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "0"], "budget must cover one direction, got 0; give --budget 1 or more"),
        (["--budget", "-5"], "budget must cover one direction, got -5; give --budget 1 or more"),
        (
            ["-o", "deep/compare.foo"],
            "a figure's name must end in .png, .svg, .pdf or .jpg, got 'compare.foo'; "
            "choose another with -o",
        ),
        (
            ["-o", "compare"],
            "a figure's name must end in .png, .svg, .pdf or .jpg, got 'compare'; "
            "choose another with -o",
        ),
    ],
)
def test_compare_refuses_what_it_cannot_do_before_it_starts(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["compare", "--dim", "20", *options])
    assert (done.exit_code, done.output) == (2, f"zotune: {message}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", FIGURES)
def test_compare_writes_every_kind_of_figure_that_it_names(kind: str, tmp_path: Path) -> None:
    figure = tmp_path / f"compare{kind.upper()}"
    options = ["--dim", "2", "--budget", "2", "--replicates", "1", "-o", str(figure)]
    assert CliRunner().invoke(main, ["compare", *options]).exit_code == 0
    assert figure.stat().st_size > 1000


def test_version() -> None:
    assert "zotune, version 0.1.0" in CliRunner().invoke(main, ["--version"]).output
