"""The README is true: its tables come from the registries."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import zotune
from tests.tune.conftest import QUIET
from zotune.cli import main
from zotune.cli.catalogue import markdown

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.parametrize("kind", ["estimators", "directions", "settings"])
def test_tables_in_the_readme_are_those_of_the_registry(kind: str) -> None:
    found = re.search(f"<!-- {kind} -->\n(.*?)\n?<!-- /{kind} -->", README.read_text(), re.DOTALL)
    assert found is not None
    assert found.group(1) == markdown(kind)


SCRIPTS = dict(
    re.findall(r"<!-- run: (\S+) -->\n```python\n(.*?)```", README.read_text(), re.DOTALL)
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_in_the_readme_run(name: str, tmp_path: Path, store: str) -> None:
    (tmp_path / name).write_text(SCRIPTS[name])
    done = subprocess.run(
        [sys.executable, name],
        cwd=tmp_path,
        env=os.environ | QUIET | {"HOME": str(tmp_path), "MLFLOW_TRACKING_URI": store},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Run(align" in done.stdout or "tensor([" in done.stdout
    assert "above its start" not in done.stdout


FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", README.read_text(), re.DOTALL))
ON_FILES = re.findall(r"<!-- commands on these files -->\n```\n(.*?)```", README.read_text(), re.S)


def test_a_study_of_a_function_of_one_s_own_runs_as_the_readme_says(tmp_path: Path) -> None:
    assert FILES.keys() == {"my_problem.py", "my-study.yaml"}
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (command,) = "".join(ON_FILES).splitlines()
    program, *words = shlex.split(command)
    assert program == "zotune"
    done = subprocess.run(
        [sys.executable, "-m", "zotune.cli", *words, "--json", "--tracking-uri", "none"],
        cwd=tmp_path,
        env=os.environ | QUIET | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    best = json.loads(done.stdout)["best"]
    assert {(entry["estimator"], entry["q"]) for entry in best} == {
        (e, q) for e in ("avg", "align") for q in (1, 5, 20)
    }


COMMANDS = [
    line
    for block in re.findall(r"<!-- commands -->\n```\n(.*?)```", README.read_text(), re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_in_the_readme_run(command: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "zotune"
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "align" in done.output


def test_pictures_in_the_readme_exist() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README.read_text())
    assert pictures
    assert all((README.parent / picture).is_file() for picture in pictures)


RECIPES = re.findall(
    r"```python\n(.*?)```", (README.parent / "CONTRIBUTING.md").read_text(), re.DOTALL
)


def test_every_recipe_is_short_and_makes_something_that_runs() -> None:
    assert len(RECIPES) == 4
    for recipe in RECIPES:
        assert len(recipe.splitlines()) <= 20
        exec(compile(recipe, "CONTRIBUTING.md", "exec"), {})
    own = {"estimator": "halved", "update": "heavy", "step": "constant", "eta": 0.05}
    run = zotune.minimize({"name": "shifted", "dim": 4}, q=4, budget=400, **own)
    assert run.best_loss < 0.1
