"""Help: whole at 80 columns, with examples that can be typed; shell completion."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from zotune.cli import main

PAGE = Path(__file__).parent.parent / "docs" / "getting-started.md"
EXAMPLE = re.compile(r"^ {4}(zotune\b.*)$", re.MULTILINE)


def commands(
    command: click.Command = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))


ALL = dict(commands())
LEAVES = {path: one for path, one in ALL.items() if not isinstance(one, click.Group)}


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def help_of(path: tuple[str, ...]) -> str:
    """As a terminal shows it; click's test runner has two columns more."""
    context = click.Context(main, info_name="zotune")
    for at, name in enumerate(path, start=1):
        context = click.Context(ALL[path[:at]], info_name=name, parent=context)
    return context.get_help()


def spelled(path: tuple[str, ...]) -> str:
    return " ".join(("zotune", *path))


@pytest.mark.parametrize("path", ALL, ids=spelled)
def test_help_fits_80_columns_and_cuts_no_summary(path: tuple[str, ...]) -> None:
    shown = help_of(path)
    assert max(map(len, shown.splitlines())) <= 80
    _, _, listed = shown.partition("\nCommands:\n")
    assert not re.search(r"(\.\.\.|…)$", listed, re.MULTILINE)
    assert bool(listed) == isinstance(ALL[path], click.Group)


@pytest.mark.parametrize("path", LEAVES, ids=spelled)
def test_every_option_says_what_it_does(path: tuple[str, ...]) -> None:
    options = [each for each in LEAVES[path].params if isinstance(each, click.Option)]
    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("path", ALL, ids=spelled)
def test_examples_in_help_can_be_typed(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "my-study").mkdir(parents=True)
    examples = EXAMPLE.findall(help_of(path))
    assert examples
    for example in examples:
        words = tuple(shlex.split(example, comments=True)[1:])
        assert words[: len(path)] == path
        named = max((p for p in LEAVES if words[: len(p)] == p), key=len)
        LEAVES[named].make_context(spelled(named), list(words[len(named) :]))


def test_the_line_on_the_site_prints_a_completion_script() -> None:
    found = re.search(
        r'eval "\$\((_ZOTUNE_COMPLETE)=(\w+) zotune\)"', PAGE.read_text(encoding="utf-8")
    )
    assert found is not None
    variable, instruction = found.groups()
    done = CliRunner().invoke(main, [], prog_name="zotune", env={variable: instruction})
    assert (done.exit_code, "complete" in done.output) == (0, True)
    words = {"COMP_WORDS": "zotune re", "COMP_CWORD": "1", variable: "bash_complete"}
    offered = CliRunner().invoke(main, [], prog_name="zotune", env=words).output
    assert {"report", "reproduce"} == {line.partition(",")[2] for line in offered.splitlines()}


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("run strongly-convex-t", {"strongly-convex-tuned", "strongly-convex-tuned-500"}),
        ("run my", set()),
        ("report my", {"my-own"}),
        ("ui smoke my", {"my-own"}),
    ],
)
def test_names_of_studies_are_completed(
    typed: str, offered: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "my-own").mkdir(parents=True)
    words = {"COMP_WORDS": f"zotune {typed}", "COMP_CWORD": str(len(typed.split()))}
    environment = words | {"_ZOTUNE_COMPLETE": "bash_complete"}
    answer = CliRunner().invoke(main, [], prog_name="zotune", env=environment).output
    kinds = [line.partition(",")[::2] for line in answer.splitlines()]
    assert {name for kind, name in kinds if kind == "plain"} == offered
    assert "file" in {kind for kind, _ in kinds}


def test_colours_are_left_out_where_the_environment_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """rich and click both follow NO_COLOR; nothing of ours forces colours past it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = CliRunner().invoke(main, ["list"], color=True).output
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = CliRunner().invoke(main, ["list"], color=True).output
    assert "\x1b[" in coloured
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", plain)
