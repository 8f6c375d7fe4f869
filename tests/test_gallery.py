"""The gallery: eight scripts, each a page and a notebook, and each runs."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.snippets import ROOT, tool

EXAMPLES = {example.name: example for example in tool("gallery").examples()}


PRINTED = {
    "attack": ["taken for a cross"],
    "language_model": [
        "a very good film .        good",
        "the story is dull .       bad",
    ],
}
"""What an example must come to, and not only end."""


def test_there_are_eight_examples_with_a_picture_each() -> None:
    assert len(EXAMPLES) == 8
    assert all((ROOT / "docs" / "gallery" / f"{name}.png").is_file() for name in EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_script_becomes_a_page_with_all_of_its_code(name: str) -> None:
    example = EXAMPLES[name]
    code = "\n".join(cell.source for cell in example.cells if not cell.is_text)
    assert ast.dump(ast.parse(code)) == ast.dump(ast.parse(example.path.read_text("utf-8")))
    assert example.page.startswith(f"# {example.title}\n\n{example.summary[:20]}")
    assert f"{name}.png" in code  # the picture of the page is the one that it draws


@pytest.mark.docs
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_notebook_runs_from_top_to_bottom_and_shows_a_picture(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat", reason="pip install 'zotune[docs]'")
    from nbclient import NotebookClient

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONWARNINGS", "default")  # a kernel is others' code
    book = nbformat.reads(EXAMPLES[name].notebook, as_version=4)
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [
        kind for c in book.cells for out in c.get("outputs", []) for kind in out.get("data", {})
    ]
    assert {"image/png", "text/html"} & set(shown)
    assert (tmp_path / f"{name}.png").is_file()
    printed = "".join(out.get("text", "") for c in book.cells for out in c.get("outputs", []))
    assert all(line in printed for line in PRINTED.get(name, []))
    assert json.loads(nbformat.writes(book))["cells"][0]["cell_type"] == "markdown"
