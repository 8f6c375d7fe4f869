"""docs/language-models.md is true: its commands run one after the other, then its script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from zotune.cli import main
from zotune.language.made import JUDGEMENTS, LABELS
from zotune.language.options import Options
from zotune.study.shape import TOP

PAGE = (Path(__file__).parents[2] / "docs" / "language-models.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"<!-- commands -->\n```\n(.*?)```", PAGE, re.DOTALL)
SCRIPTS = dict(re.findall(r"<!-- run: (\S+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
OUTPUTS = dict(re.findall(r"<!-- output of (\S+) -->\n```\n(.*?)```", PAGE, re.DOTALL))
NAME = "predict.py"
SCRIPT, OUTPUT = SCRIPTS[NAME], OUTPUTS[NAME]


def typed(line: str) -> str:
    done = CliRunner().invoke(main, shlex.split(line)[1:])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def predict(
    shared_ray: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[], str]:
    """What the page's script prints, in a new folder."""
    monkeypatch.chdir(tmp_path)

    def printed() -> str:
        capsys.readouterr()
        exec(compile(SCRIPT, NAME, "exec"), {})
        return capsys.readouterr().out

    return printed


@pytest.mark.slow
def test_the_model_that_the_page_trains_and_exports_answers_what_the_page_shows(
    predict: Callable[[], str],
) -> None:
    lines = [line for block in COMMANDS for line in block.splitlines()]
    assert [line.split()[:2] for line in lines] == [["zotune", "run"], ["zotune", "export"]]
    assert "AutoModelForSequenceClassification" in [typed(line) for line in lines][-1]
    assert predict() == OUTPUT


@pytest.mark.long
def test_the_model_of_the_whole_study_gives_the_same_answers(predict: Callable[[], str]) -> None:
    typed("zotune run tiny-lm --tracking-uri none --no-report")
    typed("zotune export results/tiny-lm -o my-model")
    assert predict() == OUTPUT


@pytest.mark.parametrize("name", SCRIPTS.keys() - {NAME})
def test_other_scripts_print_what_the_page_shows(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(SCRIPTS[name], name, "exec"), {})
    assert capsys.readouterr().out == OUTPUTS[name]


def test_the_answers_that_the_page_shows_are_the_labels_of_its_texts() -> None:
    texts = dict(re.findall(r'"([^"]*\b(good|dull)\b[^"]*)"', SCRIPT))
    labels = [label for word in texts.values() for label in LABELS if word in JUDGEMENTS[label]]
    assert "\n".join([str(labels), *labels, ""]) == OUTPUT


def test_studies_on_the_page_have_keys_and_options_that_there_are() -> None:
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL):
        study = yaml.safe_load(block)
        assert study.keys() <= set(TOP)
        options = {key: value for key, value in study["problem"].items() if key != "name"}
        Options(**options)


def test_every_option_is_on_the_page() -> None:
    table = set(re.findall(r"`(\w+)`", PAGE))
    assert set(Options.__dataclass_fields__) - {"seed"} <= table
