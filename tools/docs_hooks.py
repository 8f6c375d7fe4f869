"""What the documentation site generates when it is built, so that it cannot be out of date.

The generated parts of pages, and the pages of the gallery. mkdocs calls the functions by their
names; ``mkdocs.yml`` names this file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

import gallery
import generated

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files


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
    """Make the generated parts again; the gallery's links lead to pages that only the site has."""
    return generated.filled(text, _on_the_site)


def _on_the_site(name: str) -> str:
    return gallery.listing() if name == "gallery" else generated.part(name)
