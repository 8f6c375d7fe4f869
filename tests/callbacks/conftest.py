"""A gate before the MLflow server that can fail in many ways, and what a store holds."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient
from ray import tune

from tests.servers import Server, wait_for
from tests.tune.conftest import fit
from zotune.callbacks.stores import open_client
from zotune.core.names import KIND_TAG

__all__ = ["fit", "wait_for"]

FORWARD, REFUSE, HANG, FAIL = "forward", "refuse", "hang", "fail"
BATCH_CALL = b"runs/log-batch"
ANSWER_500 = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Gate:
    """Stands before the server, and forwards, refuses, says nothing, or answers 500."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.mode = FORWARD
        self.batches = 0
        self.before_batch: Callable[[int], bool] = lambda number: False
        self.after_batch: Callable[[int], bool] = lambda number: False
        self.held: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One request a connection; the server is asked to close it afterwards."""
        if self.mode == HANG:
            self.held.append(client)
            return
        with client:
            if self.mode == REFUSE:
                reset = b"\x01\x00\x00\x00\x00\x00\x00\x00"
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                return
            request = _read_request(client)
            if self.mode == FAIL:
                client.sendall(ANSWER_500)
            elif request:
                self._forward(client, request)

    def _forward(self, client: socket.socket, request: bytes) -> None:
        is_batch = BATCH_CALL in request.split(b"\r\n", 1)[0] and b'"metrics"' in request
        self.batches += is_batch
        number = self.batches
        if is_batch and self.before_batch(number):
            return
        with socket.create_connection(("127.0.0.1", self.target)) as server:
            server.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            answer = b""
            while part := server.recv(65536):
                answer += part
        if not (is_batch and self.after_batch(number)):
            client.sendall(answer)

    def close(self) -> None:
        self.listener.close()
        for client in self.held:
            client.close()


def _read_request(client: socket.socket) -> bytes:
    """A request with its body, without the wish to keep the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = client.recv(65536)
        if not part:
            return b""
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    lengths = [int(x.split(b":")[1]) for x in lines if x.lower().startswith(b"content-length:")]
    while len(body) < sum(lengths):
        body += client.recv(65536)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.fixture
def gate(running_server: Server) -> Iterator[Gate]:
    gate = Gate(running_server.port)
    yield gate
    gate.close()


class At(tune.Callback):
    """Does something, once each, when so many results have come."""

    def __init__(self, **actions: Callable[[], None]) -> None:
        self.actions = {int(key.removeprefix("result_")): do for key, do in actions.items()}
        self.seen = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"actions": {}, "seen": 0}

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.seen += 1
        self.actions.get(self.seen, lambda: None)()


def runs(uri: str, experiment: str, kind: str = "trial") -> dict[str, Run]:
    """Runs of an experiment by their names; no two have one name."""
    client = open_client(uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        return {}
    all_runs = [
        r for r in client.search_runs([found.experiment_id]) if r.data.tags[KIND_TAG] == kind
    ]
    by_name = {str(run.info.run_name): run for run in all_runs}
    assert len(by_name) == len(all_runs)
    return by_name


def history(uri: str, run: Run, key: str) -> list[tuple[int, float]]:
    """All points of a metric, in the order of their steps; what is there twice is twice."""
    client: MlflowClient = open_client(uri)
    return sorted((m.step, m.value) for m in client.get_metric_history(run.info.run_id, key))
