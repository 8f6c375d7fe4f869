"""What is generated from the code and stands in the pages of ``docs``, between two marks.

Tables of the registries, the help of every command, the list of the gallery. ``python
tools/generated.py`` (``make pages``) writes them into the files; with ``--check`` it only says
which pages are out of date, as a test does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent))

import gallery

from zotune.cli import main
from zotune.cli.catalogue import markdown

DOCS = Path(__file__).parents[1] / "docs"
END = "<!-- end of what is generated -->"
PART = re.compile(rf"<!-- generated: ([\w -]+?) -->\n.*?{END}", re.DOTALL)
WIDTH = 80


def filled(text: str, parts: Callable[[str], str] | None = None) -> str:
    """The page with every generated part made again."""
    make = parts or part

    def whole(found: re.Match[str]) -> str:
        return f"<!-- generated: {found[1]} -->\n\n{make(found[1])}\n\n{END}"

    return PART.sub(whole, text)


def part(name: str) -> str:
    """A generated part by the name in its mark: ``help``, ``gallery``, or the kind of a table."""
    if name == "help":
        return "\n".join(_help(main, ("zotune",))).strip()
    return gallery.files() if name == "gallery" else markdown(name)


def _help(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    """A section for each command that does something, with the help that a terminal shows."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _help(inner, (*path, name))
        return
    context = click.Context(command, info_name=" ".join(path), terminal_width=WIDTH)
    yield f"## {' '.join(path)}\n\n```text\n{command.get_help(context)}\n```\n"


def outdated() -> dict[Path, str]:
    """The pages whose generated parts have changed, and what they should be."""
    found = {}
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if (now := filled(text)) != text:
            found[path] = now
    return found


def write(*, check: bool) -> int:
    """Write the pages that have changed, or only name them; 1 if some have and none is written."""
    changed, word = outdated(), "out of date: make pages" if check else "written"
    for path, text in changed.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(DOCS.parent)}: {word}")
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(write(check="--check" in sys.argv))
