"""Render sections of text, figures and tables as one self-contained HTML page, or as Markdown.

The figures on the page are the same SVGs as the files; a short script adds tooltips and toggles
curves by their legend. A content security policy forbids the page any network access.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template

from zotune.claims import FAILS, HOLDS, UNDECIDED
from zotune.reporting.drawing import Drawing

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Content security policy: no network access."""
_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="$policy">
<title>$title</title>
<style>
$style
</style>
</head>
<body>
<header><h1>$title</h1>
$lead</header>
<main>
$body
</main>
<div id="tip" role="status" hidden></div>
<script>
$script
</script>
</body>
</html>
""")


@dataclass(frozen=True)
class Table:
    """A table with formatted cells."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    footnotes: Sequence[str] = ()
    """Sentences for the marks in cells, each with its mark."""

    @property
    def below(self) -> list[str]:
        """All lines below the table."""
        return [*self.footnotes, *([self.note] if self.note else [])]


@dataclass(frozen=True)
class Section:
    """A part of a report."""

    title: str
    text: Sequence[str] = ()
    """Paragraphs."""
    drawings: Sequence[Drawing] = ()
    """Drawings, with names that are unique on the page."""
    tables: Sequence[Table] = ()


def page(title: str, sections: Sequence[Section], *, lead: Sequence[str] = ()) -> str:
    """The whole page as text.

    Args:
        title: the title of the page.
        sections: the sections in order.
        lead: paragraphs before the first section.
    """
    return _PAGE.substitute(
        policy=escape(POLICY),
        title=escape(title),
        style=_asset("page.css"),
        lead=_paragraphs(lead),
        body="\n".join(_section(section) for section in sections),
        script=_asset("page.js"),
    )


def markdown(title: str, sections: Sequence[Section], *, lead: Sequence[str] = ()) -> str:
    """The same as Markdown, with the figures as separate files."""
    parts = [f"# {title}", *lead]
    for section in sections:
        parts += [f"## {section.title}", *section.text]
        for drawing in section.drawings:
            parts += [f"![{drawing.title}]({drawing.name}.png)", *drawing.notes]
        for table in section.tables:
            parts += [f"### {table.title}", _markdown_table(table), *table.below]
    return "\n\n".join(parts) + "\n"


def _asset(name: str) -> str:
    return (files("zotune.reporting") / name).read_text(encoding="utf-8").strip()


def _section(section: Section) -> str:
    parts = [f"<section>\n<h2>{escape(section.title)}</h2>", _paragraphs(section.text)]
    parts += [_figure(drawing) for drawing in section.drawings]
    parts += [_table(table) for table in section.tables]
    return "\n".join([*parts, "</section>"])


def _paragraphs(texts: Sequence[str]) -> str:
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def _figure(drawing: Drawing) -> str:
    data = json.dumps(drawing.interaction(), ensure_ascii=False, separators=(",", ":"))
    safe = data.replace("<", "\\u003c")  # no name can end the script
    return (
        f'<figure id="{escape(drawing.name)}">\n<figcaption>{escape(drawing.title)}</figcaption>\n'
        f"{drawing.svg}\n{_paragraphs(drawing.notes)}\n"
        f'<script type="application/json">{safe}</script>\n</figure>'
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "\n".join(
        "<tr>" + "".join(f"<td{_marked(cell)}>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return (
        f'<h3>{escape(table.title)}</h3>\n<div class="wide"><table>\n<thead><tr>{head}</tr></thead>'
        f"\n<tbody>\n{rows}\n</tbody>\n</table></div>\n" + _paragraphs(table.below)
    )


def _marked(cell: str) -> str:
    """A cell as HTML; verdicts are coloured."""
    word = cell.partition(" ")[0]
    return f' class="{word}"' if word in (HOLDS, FAILS, UNDECIDED) else ""


def _markdown_table(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join(
        [line(table.columns), "|" + "---|" * len(table.columns), *map(line, table.rows)]
    )
