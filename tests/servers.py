"""Real sqlite stores and one real MLflow server, made once and shared by all tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from zotune.callbacks.serving import JOBS
from zotune.core.processes import supervised

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
with warnings.catch_warnings():  # of MLflow's own, when it is imported
    warnings.simplefilter("ignore")
    import mlflow.store.tracking.sqlalchemy_store  # noqa: F401


PATIENCE = 300.0
"""Seconds that whatever is waited for may take on a busy machine."""


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"did not happen within {seconds} s")
        time.sleep(0.05)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sqlite store with nothing in it; making one takes seconds, copying it does not."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    quiet = "from zotune.callbacks.stores import open_client; import sys; open_client(sys.argv[1])"
    command = [sys.executable, "-c", quiet, f"sqlite:///{path}"]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.fixture
def store(empty_store: Path, tmp_path: Path) -> str:
    """The address of a sqlite store of this test."""
    path = tmp_path / "store" / "mlflow.db"
    path.parent.mkdir()
    shutil.copy(empty_store, path)
    return f"sqlite:///{path}"


class Server:
    """A real MLflow server on a sqlite file; it can be stopped and started again."""

    def __init__(self, folder: Path, database: Path) -> None:
        self.folder, self.database = folder, database
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._kept = ExitStack()

    def start(self) -> None:
        options = {
            "--host": "127.0.0.1",
            "--port": str(self.port),
            "--workers": "1",
            "--backend-store-uri": f"sqlite:///{self.database}",
            "--artifacts-destination": str(self.folder / "artifacts"),
        }
        words = [word for pair in options.items() for word in pair]
        command = [sys.executable, "-m", "mlflow", "server", *words]
        self._kept.enter_context(supervised(command, env=os.environ | {JOBS: "false"}))

    def stop(self) -> None:
        self._kept.close()

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=30):
                return True
        except OSError:
            return False


@pytest.fixture(scope="session")
def running_server(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(empty_store, folder / "mlflow.db")
    server = Server(folder, folder / "mlflow.db")
    server.start()
    wait_for(server.answers)
    yield server
    server.stop()
