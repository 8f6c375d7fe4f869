"""The README is true: its tables come from the registries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zotune.catalogue import markdown

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.parametrize("kind", ["estimators", "directions"])
def test_tables_in_the_readme_are_those_of_the_registry(kind: str) -> None:
    found = re.search(f"<!-- {kind} -->\n(.*?)\n?<!-- /{kind} -->", README.read_text(), re.DOTALL)
    assert found is not None
    assert found.group(1) == markdown(kind)


def test_pictures_in_the_readme_exist() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README.read_text())
    assert pictures
    assert all((README.parent / picture).is_file() for picture in pictures)
