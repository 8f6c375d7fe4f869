"""The pages of the site are true: their snippets run. ``make docs-test``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.snippets import ROOT, Page, run_command, run_script

PAGES = {path.stem: Page(path) for path in sorted((ROOT / "docs").glob("*.md"))}
ELSEWHERE = {"language-models", "parallel", "tuning"} & PAGES.keys()
"""Have tests of their own."""
SCRIPTS = [(p, name) for p in PAGES if p not in ELSEWHERE for name in PAGES[p].scripts]
COMMANDS = [line for p in PAGES if p not in ELSEWHERE for line in PAGES[p].commands()]


@pytest.mark.docs
@pytest.mark.parametrize(("page", "name"), SCRIPTS)
def test_scripts_on_the_site_run(page: str, name: str, tmp_path: Path, store: str) -> None:
    said = run_script(name, PAGES[page].scripts[name], tmp_path, MLFLOW_TRACKING_URI=store)
    assert "Run(" in said or "tensor([" in said
    assert "above its start" not in said


@pytest.mark.docs
@pytest.mark.parametrize("line", COMMANDS)
def test_commands_on_the_site_run(line: str, tmp_path: Path) -> None:
    assert run_command(line, tmp_path)


@pytest.mark.parametrize("page", sorted(PAGES.keys() - ELSEWHERE))
def test_no_python_on_the_site_is_left_untried(page: str) -> None:
    assert PAGES[page].loose == []


@pytest.mark.parametrize("page", ["coming-from", "pipeline"])
def test_what_a_diff_adds_is_in_a_snippet_that_runs(page: str) -> None:
    text = PAGES[page].text
    added = re.findall(
        r"^\+(.+)$", "\n".join(re.findall(r"```diff\n(.*?)```", text, re.DOTALL)), re.M
    )
    assert added
    tried = "\n".join(re.findall(r"```python\n(.*?)```", PAGES["pipeline"].text + text, re.DOTALL))
    for line in added:
        name = re.search(r"zotune(\.\w+)+", line)
        assert name is not None
        assert name[0] in tried, line
