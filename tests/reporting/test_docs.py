"""What the site says about reports is true."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.reporting.conftest import Recorded
from zotune.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "mlflow.md"
BLOCK = r"<!-- commands on records -->\n```\n(.*?)```"
COMMANDS = "".join(re.findall(BLOCK, PAGE.read_text(encoding="utf-8"), re.DOTALL)).splitlines()


@pytest.fixture(scope="module")
def said(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder in which the commands of the page were run, and what they said."""
    folder = tmp_path_factory.mktemp("readme")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", recorded.uri)
        patch.chdir(folder)
        words = [shlex.split(command, comments=True) for command in COMMANDS]
        assert [program for program, *_ in words] == ["zotune", "zotune"]
        done = [CliRunner().invoke(main, rest) for _, *rest in words]
    assert [each.exit_code for each in done] == [0, 0]
    return folder, [each.output for each in done]


def test_the_first_command_makes_the_same_files_as_ever(
    said: tuple[Path, list[str]], written_report: tuple[Path, str]
) -> None:
    made = list((said[0] / "reports/mine").iterdir())
    assert len(made) > 10
    for path in made:
        assert path.read_bytes() == (written_report[0] / path.name).read_bytes(), path.name


def test_two_launches_are_two_sections_and_the_report_is_not_attached(
    recorded: Recorded, said: tuple[Path, list[str]]
) -> None:
    told = json.loads(said[1][1])
    assert [launch["id"] for launch in told["launches"]] == [recorded.first, recorded.second]
    assert [len(launch["trials"]) for launch in told["launches"]] == [1, 8]
    assert told["attached"] is False
    assert told["not_attached"] == "it is about several launches"
    text = (said[0] / "figures/report.md").read_text()
    second = recorded.second
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        f"launch {recorded.first}",
        f"Claims of launch {second}",
        f"launch {second}",
    ]
    assert {"part1-curves.svg", "part2-curves.svg"} <= set(told["files"])
