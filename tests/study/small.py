"""A study of seconds, written down and run by the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tests.instrument import plain_study
from zotune.cli import main

SMALL: dict[str, Any] = {
    "name": "mine",
    "problem": {"name": "quadratic", "dim": 12},
    "budget": 96,
    "replicates": 2,
    "space": {"estimator": ["avg", "align"], "q": [1, 12]},
}


def invoke(*words: str | Path, uri: str = "none") -> Result:
    options = ["--tracking-uri", uri] if words[0] == "run" else []
    return CliRunner().invoke(main, [*(str(word) for word in words), *options])


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "mine.yaml"
    path.write_text(plain_study(**SMALL | changes).to_yaml())
    return path
