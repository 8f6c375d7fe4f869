"""Tables and help in the folder ``docs`` are what the code says, without a build of the site."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.snippets import ROOT
from zotune.cli.catalogue import catalogue, markdown

TOOL = "tools/generated.py"
END = "<!-- end of what is generated -->"


def checked(root: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: other tests register entries in this one."""
    command = [sys.executable, str(root / TOOL), "--check"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def test_generated_parts_of_the_pages_are_up_to_date() -> None:
    done = checked(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_part_that_was_changed_by_hand_is_named_and_written_again(tmp_path: Path) -> None:
    (tmp_path / "docs" / "gallery").mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    for name in ("generated", "gallery"):
        text = (ROOT / "tools" / f"{name}.py").read_text(encoding="utf-8")
        (tmp_path / "tools" / f"{name}.py").write_text(text, encoding="utf-8")
    page = tmp_path / "docs" / "page.md"
    page.write_text(f"A\n\n<!-- generated: differences -->\nmine\n{END}\n\nB\n", "utf-8")
    assert checked(tmp_path).stdout == "docs/page.md: out of date: make pages\n"
    subprocess.run([sys.executable, tmp_path / TOOL], check=True, capture_output=True)
    whole = f"<!-- generated: differences -->\n\n{markdown('differences')}\n\n{END}"
    assert page.read_text("utf-8") == f"A\n\n{whole}\n\nB\n"
    assert checked(tmp_path).returncode == 0


def test_no_page_of_the_folder_waits_for_the_site_to_be_complete() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<!-- (table|help|list)\b", text), page
        assert not re.search(rf"<!-- generated: [\w -]+ -->\s*{END}", text), page


@pytest.mark.parametrize("kind", catalogue())
def test_every_row_of_a_table_has_a_cell_for_each_column(kind: str) -> None:
    head, *rows = markdown(kind).splitlines()
    columns = head.count("|")
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {columns}
