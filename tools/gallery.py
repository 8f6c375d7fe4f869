"""The gallery: one script an example, from which its page and its notebook are made.

A script is Python with cells: a line ``# %% [markdown]`` begins text, a line ``# %%`` begins code.
Its first text cell begins with the title. ``python tools/gallery.py FOLDER`` writes the notebooks.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "gallery"
CELL = re.compile(r"^# %%(?P<text> \[markdown\])?[^\n]*\n", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """A part of a script."""

    is_text: bool
    source: str


@dataclass(frozen=True)
class Example:
    """One script of the gallery."""

    path: Path

    @property
    def name(self) -> str:
        """Of the script, its page, its notebook and its picture."""
        return self.path.stem

    @property
    def cells(self) -> list[Cell]:
        """The cells of the script; what comes before the first is left out."""
        text = self.path.read_text(encoding="utf-8")
        marks = list(CELL.finditer(text))
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        return [
            Cell(bool(mark["text"]), _plain(text[mark.end() : end], bool(mark["text"])))
            for mark, end in zip(marks, ends, strict=True)
        ]

    @property
    def title(self) -> str:
        """The heading of its first cell."""
        return self.cells[0].source.splitlines()[0].removeprefix("# ")

    @property
    def summary(self) -> str:
        """The first sentence below the title."""
        return self.cells[0].source.split("\n\n")[1].replace("\n", " ").split(". ")[0].rstrip(".")

    @property
    def page(self) -> str:
        """The example in Markdown, its picture after the introduction."""
        first, *rest = self.cells
        files = f"[Script]({self.name}.py) · [Notebook]({self.name}.ipynb)"
        picture = f"![{self.title}]({self.name}.png)"
        parts = [first.source, picture, files]
        parts += [c.source if c.is_text else f"```python\n{c.source}\n```" for c in rest]
        return "\n\n".join(parts) + "\n"

    @property
    def notebook(self) -> str:
        """The example as a notebook, not run yet."""
        import nbformat

        book = nbformat.v4.new_notebook()
        for at, cell in enumerate(self.cells):
            make = nbformat.v4.new_markdown_cell if cell.is_text else nbformat.v4.new_code_cell
            book.cells.append(make(cell.source, id=f"{self.name}-{at}"))
        return str(nbformat.writes(book))


def _plain(source: str, is_text: bool) -> str:
    if is_text:
        source = re.sub(r"^# ?", "", source, flags=re.MULTILINE)
    return source.strip("\n")


def examples() -> list[Example]:
    """All scripts, by name."""
    return [Example(path) for path in sorted(FOLDER.glob("*.py"))]


def listing() -> str:
    """The examples with their pictures, for the gallery's first page."""
    parts = [
        f"<div markdown>\n[![{e.title}]({e.name}.png)]({e.name}.md)\n\n**[{e.title}]({e.name}.md)**"
        f"\n\n{e.summary}.\n</div>"
        for e in examples()
    ]
    return '<div class="gallery" markdown>\n' + "\n".join(parts) + "\n</div>"


def files() -> str:
    """The examples with their pictures and scripts, for readers of the folder."""
    return "\n\n".join(
        f"**[{e.title}]({e.name}.py)**: {e.summary}.\n\n![{e.title}]({e.name}.png)"
        for e in examples()
    )


def main(folder: Path) -> None:
    """Write the notebooks."""
    folder.mkdir(parents=True, exist_ok=True)
    for example in examples():
        (folder / f"{example.name}.ipynb").write_text(example.notebook, encoding="utf-8")
        print(folder / f"{example.name}.ipynb")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
