"""The README is true: its tables come from the registries."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tune.conftest import QUIET
from zotune.catalogue import markdown
from zotune.cli import main

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.parametrize("kind", ["estimators", "directions"])
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
