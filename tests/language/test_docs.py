"""docs/language-models.md is true: its commands run one after the other, then its script."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from tests.conftest import QUIET
from zotune.language.options import Options
from zotune.study.shape import TOP

PAGE = (Path(__file__).parents[2] / "docs" / "language-models.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"<!-- commands -->\n```\n(.*?)```", PAGE, re.DOTALL)
SCRIPTS = re.findall(r"<!-- run: (\S+) -->\n```python\n(.*?)```", PAGE, re.DOTALL)


def test_a_model_is_trained_exported_and_used_as_the_page_says(tmp_path: Path) -> None:
    lines = [line for block in COMMANDS for line in block.splitlines()]
    assert [line.split()[:2] for line in lines] == [["zotune", "run"], ["zotune", "export"]]
    for line in lines:
        said = _run(["-m", "zotune.cli", *shlex.split(line)[1:]], tmp_path)
    assert "AutoModelForSequenceClassification" in said
    ((name, script),) = SCRIPTS
    (tmp_path / name).write_text(script)
    assert re.search(r"\['(good|bad)', '(good|bad)'\]\ntensor", _run([name], tmp_path))


def _run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | QUIET,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_studies_on_the_page_have_keys_and_options_that_there_are() -> None:
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL):
        study = yaml.safe_load(block)
        assert study.keys() <= set(TOP)
        options = {key: value for key, value in study["problem"].items() if key != "name"}
        Options(**options)


def test_every_option_is_on_the_page() -> None:
    table = set(re.findall(r"`(\w+)`", PAGE))
    assert set(Options.__dataclass_fields__) - {"seed"} <= table
