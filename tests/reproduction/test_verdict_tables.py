"""The command that writes tables of verdicts makes the runs of a study, and keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.study.test_refining import STUDY
from tools import verdicts
from zotune.claims import judge
from zotune.study import Study

TINY = Study(**STUDY | {"name": "tiny", "budget": 120})


def test_runs_are_kept_and_the_grid_is_refined_as_in_a_launch(tmp_path: Path) -> None:
    file = tmp_path / "tiny.jsonl"
    first = list(verdicts.ended(TINY, file))
    assert len(first) > TINY.size
    before = file.read_text(encoding="utf-8")
    again = list(verdicts.ended(TINY, file))
    assert file.read_text(encoding="utf-8") == before
    assert judge(TINY.claims, first, TINY.tuning) == judge(TINY.claims, again, TINY.tuning)
    steps = {json.loads(line)["config"]["eta"] for line in before.splitlines()}
    assert steps > {1.0, 1.5, 2.0}


@pytest.mark.parametrize("old", ["", "old text\n"])
def test_a_table_replaces_what_stands_between_its_marks_alone(tmp_path: Path, old: str) -> None:
    page = tmp_path / "page.md"
    marks = "<!-- verdicts: one -->\n{}<!-- end -->\n"
    page.write_text(f"before\n{marks.format(old)}<!-- verdicts: two -->\nkept\n<!-- end -->\n")
    verdicts.replace_between(page, "one", "new")
    assert page.read_text() == (
        f"before\n{marks.format(f'new{chr(10)}')}<!-- verdicts: two -->\nkept\n<!-- end -->\n"
    )
