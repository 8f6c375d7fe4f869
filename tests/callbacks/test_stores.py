"""Stores are found, the retired one is refused, and credentials are told to nobody."""

from __future__ import annotations

import pickle
from copy import deepcopy
from pathlib import Path

import cloudpickle
import pytest

from zotune.callbacks import MLflowCurves
from zotune.callbacks.stores import (
    artifact_root,
    resolve_uri,
    with_credentials,
    without_credentials,
)
from zotune.errors import ConfigError

SECRET = "https://me:open-sesame@tracking.example.org/base"


def test_the_store_is_given_or_of_the_environment_or_a_file_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert resolve_uri() == f"sqlite:///{tmp_path}/mlflow.db"
    assert resolve_uri("sqlite:///a/b.db") == f"sqlite:///{tmp_path}/a/b.db"
    assert resolve_uri(f"sqlite:///{tmp_path}/c.db") == f"sqlite:///{tmp_path}/c.db"
    assert artifact_root(resolve_uri()) == f"file://{tmp_path}/mlartifacts"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:5000")
    assert resolve_uri() == "http://localhost:5000"
    assert artifact_root(resolve_uri()) is None


@pytest.mark.parametrize("uri", ["mlruns", "./mlruns", "file:///tmp/mlruns"])
def test_the_retired_file_store_is_refused_before_anything_starts(uri: str) -> None:
    with pytest.raises(ConfigError, match="a store that MLflow has retired; use sqlite:///mlflow"):
        MLflowCurves(uri)


def test_a_database_without_its_scheme_is_told_how_to_be_written() -> None:
    with pytest.raises(ConfigError, match=r"use sqlite:///runs\.db"):
        resolve_uri("runs.db")


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (SECRET, "https://tracking.example.org/base"),
        ("postgresql://u:p%40ss@db:5432/runs", "postgresql://db:5432/runs"),
        (
            "postgresql://db/runs?password=p&sslmode=on",
            "postgresql://db/runs?password=…&sslmode=on",
        ),
        ("cannot reach http://u:p@h:1/x now", "cannot reach http://h:1/x now"),
        ("sqlite:////tmp/mlflow.db", "sqlite:////tmp/mlflow.db"),
    ],
)
def test_credentials_are_taken_out_of_any_text(told: str, kept: str) -> None:
    assert without_credentials(told) == kept


def test_a_pickled_callback_has_no_credentials_and_finds_them_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    callback = MLflowCurves(SECRET, "study")
    pickled = cloudpickle.dumps(callback)
    assert b"sesame" not in pickled
    assert pickle.loads(pickled)._uri == "https://tracking.example.org/base"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", SECRET)
    assert pickle.loads(pickled)._uri == SECRET
    assert with_credentials("https://elsewhere.example.org") == "https://elsewhere.example.org"
    assert deepcopy(callback)._uri == SECRET
