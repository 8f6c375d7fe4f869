"""The README is true: what it shows runs, and what it names is there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from ray.tune.experiment import Trial

import zotune
from tests.snippets import README, ROOT, Page, run_command, run_script
from tests.weights.toy import Toy
from zotune.cli import main

PAGE = Page(README)
LONGEST = 200


def test_the_readme_is_short_and_no_python_in_it_is_left_untried() -> None:
    assert len(PAGE.text.splitlines()) <= LONGEST
    assert PAGE.loose == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGE.scripts)
def test_scripts_in_the_readme_run(name: str, tmp_path: Path, store: str) -> None:
    said = run_script(name, PAGE.scripts[name], tmp_path, MLFLOW_TRACKING_URI=store)
    assert "Run(" in said
    assert "tensor([" in said
    assert "above its start" not in said
    assert "to see them, type: zotune ui mine --tracking-uri" in said


@pytest.mark.slow
def test_a_study_of_a_function_of_one_s_own_runs_as_the_readme_says(tmp_path: Path) -> None:
    assert PAGE.files.keys() == {"my_problem.py", "my-study.yaml"}
    for name, text in PAGE.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (command,) = PAGE.commands("commands on these files")
    best = json.loads(run_command(command, tmp_path, "--json", "--tracking-uri", "none"))["best"]
    assert {(entry["estimator"], entry["q"]) for entry in best} == {
        (e, q) for e in ("avg", "align") for q in (1, 5, 20)
    }


def test_commands_in_the_readme_are_commands() -> None:
    typed = re.findall(r"^zotune .*$", PAGE.text, re.MULTILINE)
    assert len(typed) >= 5
    for line in typed:
        _, name, *words = shlex.split(line, comments=True)
        main.commands[name].make_context(name, words)


def test_pictures_and_pages_that_the_readme_names_exist() -> None:
    named = re.findall(r"\]\(([^)#]+)\)", PAGE.text)
    assert "docs/compare.png" in named
    assert all((ROOT / name).is_file() for name in named if not name.startswith("http"))


RECIPES = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)


def test_every_recipe_is_short_and_makes_something_that_runs() -> None:
    assert len(RECIPES) == 4
    for recipe in RECIPES:
        assert len(recipe.splitlines()) <= 20
        exec(compile(recipe, "CONTRIBUTING.md", "exec"), {})
    own = {"estimator": "halved", "update": "heavy", "step": "constant", "eta": 0.05}
    run = zotune.minimize({"name": "shifted", "dim": 4}, q=4, budget=400, **own)
    assert run.best_loss < 0.1
    run = zotune.minimize(Toy(), q=4, budget=400, **own | {"eta": 1e-3})
    assert run.best_loss < run.rows[0]["loss"]


def test_the_recipe_of_a_callback_is_one_of_tune_s(capsys: pytest.CaptureFixture[str]) -> None:
    made: dict[str, Any] = {}
    exec(compile(RECIPES[-1], "CONTRIBUTING.md", "exec"), made)
    assert issubclass(made["Announce"], tune.Callback)
    trial = Trial("announced", stub=True)
    trial.update_last_result({"loss": 0.5, "training_iteration": 1})
    made["Announce"]().on_trial_complete(iteration=1, trials=[trial], trial=trial)
    assert "0.5" in capsys.readouterr().out
