"""One real study in a real store, launched twice, for all tests of the report."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.instrument import minimize, plain_study
from zotune.cli import main
from zotune.results.checkpoints import from_run
from zotune.results.configurations import Configuration

PROBLEM = {"name": "quadratic", "dim": 10, "condition": 5.0}
STUDY: dict[str, Any] = {
    "name": "mine",
    "question": "Does <averaging> want one query a step?",
    "problem": PROBLEM,
    "budget": 200,
    "replicates": 8,
    "space": {"estimator": ["avg", "align"], "q": [1, 10], "eta": [1, 2]},
    "claims": [
        {
            "name": "one",
            "says": "Averaging ends lowest with one query.",
            "best": {"q": 1},
            "where": {"estimator": "avg"},
        },
    ],
    "tuning": {"over": "eta", "replicates": 2, "theory": 1, "refine": False},
}
UNCLAIMED = {key: STUDY[key] for key in STUDY if key not in ("claims", "tuning")}


@dataclass(frozen=True)
class Recorded:
    """A store with two launches of one study."""

    uri: str
    first: str
    """The small one: ``avg`` alone."""
    second: str


@pytest.fixture(scope="session")
def recorded(
    shared_ray: None, empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Recorded:
    folder = tmp_path_factory.mktemp("reported")
    shutil.copy(empty_store, folder / "mlflow.db")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    small = UNCLAIMED | {"space": {"estimator": ["avg"], "q": [1]}, "replicates": 1}
    launches = []
    for study in (small, STUDY):
        results = plain_study(**study).run(storage_path=folder, tracking_uri=uri)
        assert not results.errors
        launches.append(Path(results.experiment_path).name)
    return Recorded(uri, *launches)


def report(*words: str, code: int = 0) -> str:
    """Run ``zotune report`` and return what it says."""
    done = CliRunner().invoke(main, ["report", *words])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(scope="session")
def written_report(
    recorded: Recorded, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The folder of a report of the newest launch, and what the command said."""
    folder = tmp_path_factory.mktemp("out")
    return folder, report("mine", "-o", str(folder), "--tracking-uri", recorded.uri, "--latex")


def series_of(problem: Any, *, q: Sequence[int] = (1, 10), **settings: Any) -> list[Configuration]:
    """Configurations that were run in this process, by estimator and q."""
    given = {"budget": 200, "replicates": 4} | settings
    return [
        Configuration((from_run(minimize(problem, estimator=estimator, q=size, **given)),))
        for estimator in ("avg", "align")
        for size in q
    ]
