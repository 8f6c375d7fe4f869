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
        ("postgresql://me:pa/ss@host/db", "postgresql://host/db"),
        ("postgresql://me:12/34@host/db", "postgresql://host/db"),
        ("postgresql://me:a?b#c@host/db?sslmode=on", "postgresql://host/db?sslmode=on"),
        ("postgresql+psycopg://me@corp:pa/ss@host:5432/db", "postgresql+psycopg://host:5432/db"),
        ("mysql://me:p@ss@host/db@2", "mysql://host/db@2"),
        ("https://me:p@ss@host", "https://host"),
        ("https://me:pa/ss@host/base", "https://host/base"),
        ("https://token@host/a@b", "https://host/a@b"),
        ("from http://u:p/q@h/x to HTTP://v:r@i/y", "from http://h/x to HTTP://i/y"),
        ("http://a:80/x,http://u:p@h/y", "http://a:80/x,http://h/y"),
    ],
)
def test_credentials_are_taken_out_of_any_text(told: str, kept: str) -> None:
    assert without_credentials(told) == kept


@pytest.mark.parametrize(
    "told",
    [
        "https://host/a@b",
        "https://host:5000/a@b",
        "https://host:5000?to=a@b",
        "https://[::1]:5000/a@b",
        "postgresql://host/db@2?options=a@b",
        "git+https://host:8443/code@v1",
        "s3://bucket/a@b",
        "sqlite:////tmp/mlflow.db",
        "sqlite:////home/me@x/mlflow.db",
        "sqlite:///me@x/mlflow.db",
        "http://host:80/x is not http://host:81/y; write to me@host",
        "write to me@host: nothing here is an address",
    ],
)
def test_what_is_not_a_credential_stays(told: str) -> None:
    assert without_credentials(told) == told


def test_a_long_text_is_looked_through_and_not_once_a_character() -> None:
    word = "data://" + 10**6 * "a"  # which would take hours
    assert without_credentials(word) == word


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


@pytest.mark.parametrize("uri", ["foo://me:open-sesame@host/x", "postgres://host/runs"])
def test_a_kind_of_store_that_mlflow_does_not_know_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="is of no kind that MLflow knows: databricks") as refused:
        resolve_uri(uri)
    assert "sqlite, uc; use sqlite:///mlflow.db" in str(refused.value)
    assert "sesame" not in str(refused.value)


def test_an_address_that_mlflow_cannot_read_is_refused_in_its_words() -> None:
    with pytest.raises(ConfigError, match="is refused by MLflow: Invalid database URI"):
        resolve_uri("mysql+a+b://me:open-sesame@host/runs")


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:p@host/runs",
        "postgresql+psycopg2://host/runs",
        "mysql+pymysql://host/runs",
        "databricks",
        "databricks://profile",
        "HTTPS://host",
    ],
)
def test_kinds_that_mlflow_knows_stay_as_they_are(uri: str) -> None:
    assert resolve_uri(uri) == uri
