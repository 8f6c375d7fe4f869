"""What docs/parallel.md shows can be typed as it stands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import zotune
from zotune.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "parallel.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)( dask)?\n(.*?)```", PAGE, re.DOTALL)
SCRIPTS = [(code, bool(dask)) for kind, dask, code in BLOCKS if kind == "python"]
WITH_RAY = [code for code, _ in SCRIPTS if "workers=" in code and "Client(" not in code]
WITHOUT_RAY = [(code, dask) for code, dask in SCRIPTS if code not in WITH_RAY]


def test_the_page_has_what_it_promises() -> None:
    assert len(WITH_RAY) == 2
    assert len(WITHOUT_RAY) == 3


@pytest.mark.parametrize("number", range(3))
def test_recipes_for_asking_and_telling_run_as_they_stand(number: int, tmp_path: Path) -> None:
    code, dask = WITHOUT_RAY[number]
    if dask and not find_spec("distributed"):
        pytest.skip("dask is not installed")
    (tmp_path / "recipe.py").write_text(f"if __name__ == '__main__':\n{_indented(code)}")
    done = subprocess.run(
        [sys.executable, "recipe.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 1


def _indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2))
def test_snippets_with_workers_run_as_they_stand(
    number: int, shared_ray: None, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(WITH_RAY[number], "parallel.md", "exec"), {"__name__": "snippet"})
    assert float(capsys.readouterr().out.split()[-1]) < 1e-6


def test_the_study_is_one_and_its_trials_have_workers() -> None:
    (written,) = (code for kind, _, code in BLOCKS if kind == "yaml")
    study = zotune.Study(**yaml.safe_load(written))
    assert study.configuration(study.trials[0]).workers == 2
    assert study.most_workers == 2


def test_the_plan_names_the_fastest_block() -> None:
    (command,) = re.findall(r"\$ zotune (plan .*)", PAGE)
    shown = CliRunner().invoke(main, [*command.split(), "--json"])
    assert shown.exit_code == 0, shown.output
    clock = json.loads(shown.output)["wall_clock"]
    assert clock["workers"] == 64
    assert clock["faster"] >= 1
    told = CliRunner().invoke(main, command.split())
    assert "By the clock" in told.output
