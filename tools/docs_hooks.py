"""What the documentation site generates when it is built, so that it cannot be out of date.

Tables of the registries, the help of every command, and the pages of the gallery. mkdocs calls the
functions by their names; ``mkdocs.yml`` names this file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

sys.path.insert(0, str(Path(__file__).parent))

import gallery

from zotune.cli import main
from zotune.cli.catalogue import markdown

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

TABLE = re.compile(r"<!-- table: ([\w-]+) -->")
HELP = "<!-- help of every command -->"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The gallery's pages follow from its scripts."""
    for at, entry in enumerate(config.nav or []):
        if entry == {"Gallery": "gallery/"}:
            pages = [{e.title: f"gallery/{e.name}.md"} for e in gallery.examples()]
            config.nav[at] = {"Gallery": ["gallery/index.md", *pages]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page and a notebook for each script of the gallery."""
    from mkdocs.structure.files import File

    for example in gallery.examples():
        for suffix, content in ((".md", example.page), (".ipynb", example.notebook)):
            files.append(File.generated(config, f"gallery/{example.name}{suffix}", content=content))
    return files


def on_page_markdown(text: str, **_: Any) -> str:
    """Put the generated parts where a page asks for them."""
    text = TABLE.sub(lambda found: markdown(found.group(1)), text)
    if gallery.LIST in text:
        text = text.replace(gallery.LIST, gallery.listing())
    return text.replace(HELP, "\n".join(_help(main, ("zotune",)))) if HELP in text else text


def _help(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    """A section for each command that does something, with the help that a terminal shows."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _help(inner, (*path, name))
        return
    context = click.Context(command, info_name=" ".join(path), max_content_width=80)
    yield f"## {' '.join(path)}\n\n```text\n{command.get_help(context)}\n```\n"
