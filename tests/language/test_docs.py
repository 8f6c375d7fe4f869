"""docs/language-models.md is true: its commands run one after the other, then its script."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from zotune.cli import main
from zotune.language.options import Options
from zotune.study.shape import TOP

PAGE = (Path(__file__).parents[2] / "docs" / "language-models.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"<!-- commands -->\n```\n(.*?)```", PAGE, re.DOTALL)
SCRIPTS = re.findall(r"<!-- run: (\S+) -->\n```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.long
def test_a_model_is_trained_exported_and_used_as_the_page_says(
    shared_ray: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for block in COMMANDS for line in block.splitlines()]
    assert [line.split()[:2] for line in lines] == [["zotune", "run"], ["zotune", "export"]]
    for line in lines:
        done = CliRunner().invoke(main, shlex.split(line)[1:])
        assert done.exit_code == 0, done.output
    assert "AutoModelForSequenceClassification" in done.output
    ((name, script),) = SCRIPTS
    exec(compile(script, name, "exec"), {})
    assert re.search(r"\['(good|bad)', '(good|bad)'\]\ntensor", capsys.readouterr().out)


def test_studies_on_the_page_have_keys_and_options_that_there_are() -> None:
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL):
        study = yaml.safe_load(block)
        assert study.keys() <= set(TOP)
        options = {key: value for key, value in study["problem"].items() if key != "name"}
        Options(**options)


def test_every_option_is_on_the_page() -> None:
    table = set(re.findall(r"`(\w+)`", PAGE))
    assert set(Options.__dataclass_fields__) - {"seed"} <= table
