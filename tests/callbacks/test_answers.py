"""A store that does not answer costs seconds and one line; a deliverer never lives for ever."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.callbacks.conftest import Gate, runs
from tests.marked import marked, new_mark
from tests.servers import wait_for
from zotune.callbacks import answers
from zotune.callbacks.answers import StoreError, require_answer
from zotune.callbacks.journal import Journal
from zotune.callbacks.session import Session
from zotune.callbacks.spool import Spool, read_json
from zotune.callbacks.tracking import Delivery

STARTED: dict[str, Any] = {"kind": "started", "name": "one", "params": {"q": "1"}}
POINTS: dict[str, Any] = {"kind": "points", "points": [[0, {"loss": 2.0}], [5, {"loss": 1.0}]]}
WRITER = """
import sys, time
from pathlib import Path
from tests.callbacks.test_answers import a_session
session = a_session(Path(sys.argv[1]), sys.argv[2])
session.look()
print("up", flush=True)
time.sleep(600)
"""
IMPATIENT = """
import sys
from zotune.callbacks import delivery
delivery.ORPHANED = 1
delivery.main(sys.argv[1])
"""


@contextmanager
def speaking(answer: bytes | None) -> Iterator[int]:
    """The port of a server that gives everybody this answer; None: it never says anything."""
    held = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                held.append(client)
                if answer is not None:
                    client.recv(65536)
                    client.sendall(answer)
                    client.close()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    for client in held:
        client.close()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.mark.parametrize("kind", ["http", "https", "postgresql", "mysql+pymysql"])
def test_a_server_that_refuses_does_not_answer(kind: str) -> None:
    port = free_port()
    said = rf"{kind}://127.0.0.1:{port}/a does not answer \(Connection refused\)"
    with pytest.raises(StoreError, match=said.replace("+", r"\+")):
        require_answer(f"{kind}://me:open-sesame@127.0.0.1:{port}/a")


@pytest.mark.parametrize("kind", ["http", "https"])
def test_a_server_that_says_nothing_does_not_answer(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PATIENCE", 0.2)
    with speaking(None) as port, pytest.raises(StoreError, match=r"answer \(nothing in 0.2 s\)"):
        require_answer(f"{kind}://127.0.0.1:{port}")


def test_a_server_that_hangs_up_does_not_answer() -> None:
    with speaking(b"") as port, pytest.raises(StoreError, match="without response"):
        require_answer(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
        b"what is this?\r\n\r\n",
    ],
)
def test_a_server_that_says_anything_answers(answer: bytes) -> None:
    with speaking(answer) as port:
        require_answer(f"http://127.0.0.1:{port}/base/")


@pytest.mark.parametrize("uri", ["sqlite:////nowhere/mlflow.db", "databricks", "http://[bad"])
def test_what_cannot_be_asked_is_left_to_mlflow(uri: str) -> None:
    require_answer(uri)


def a_session(folder: Path, uri: str) -> Session:
    """A launch on its way, with one trial that has begun."""
    about = {"launch_id": folder.name, "time": 1000, "experiment": "mine", "versions": {}}
    spool = Spool(folder, about | {"tracking_uri": uri})
    spool.append(*({"trial": "t1", "time": 1000} | record for record in (STARTED, POINTS)))
    return Session(spool, Journal([], []), uri)


@pytest.mark.parametrize("accepts", [False, True], ids=["refuses", "says nothing"])
def test_the_end_does_not_wait_for_a_store_that_has_never_answered(
    tmp_path: Path,
    accepts: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with speaking(None) as silent, caplog.at_level(logging.WARNING, "zotune"):
        uri = f"http://127.0.0.1:{silent if accepts else free_port()}"
        session = a_session(tmp_path / "my study" / "curves" / "first", uri)
        session.write([{"kind": "closed", "time": 2000}])
        session.finish(100_000)
    why = "nothing in 4 s" if accepts else "Connection refused"
    (said,) = [record.message for record in caplog.records]
    assert said == (
        f"MLflow: {uri} does not answer ({why}); 2 curve points of 1 trials are kept. "
        "Later: zotune sync 'my study'"
    )


@pytest.mark.slow
def test_a_slow_store_is_waited_for_as_long_as_it_takes_something(
    tmp_path: Path, gate: Gate, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zotune.callbacks.session.SILENT", 0.5)
    session = a_session(tmp_path / "first", gate.uri)
    session.look()
    wait_for(lambda: read_json(tmp_path / "first" / "delivered.json").get("offset"))
    gate.before_batch = lambda number: bool(time.sleep(3))
    many = [{"trial": f"t{n}", "time": 1000 + n} for n in range(2, 10)]
    session.write(trial | record for trial in many for record in (STARTED, POINTS))
    session.write([{"kind": "closed", "time": 2000}])
    with caplog.at_level(logging.WARNING, "zotune"):
        session.finish(20)  # far more than one batch needs, and less than eight of them
    assert [record.message for record in caplog.records] == [
        "MLflow: waiting for the store to take 16 curve points of 8 trials"
    ]
    assert session.is_delivered()


def test_a_store_that_has_answered_once_is_waited_for(tmp_path: Path) -> None:
    session = a_session(tmp_path / "first", "http://127.0.0.1:9")
    delivery = Delivery(tmp_path / "first", "http://127.0.0.1:9", seen=session.spool.size)
    delivery.note("it does not answer", silent=True)
    assert session.is_absent()
    delivery.answered = True
    delivery.note("it does not answer", silent=True)
    assert not session.is_absent()
    session.spool.close()


@pytest.mark.slow
def test_a_deliverer_whose_writer_is_killed_delivers_what_is_on_disk_and_ends(
    tmp_path: Path, store: str
) -> None:
    mark = new_mark()
    words = [sys.executable, "-c", WRITER, str(tmp_path / "first"), store]
    writer = subprocess.Popen(words, env=os.environ | mark, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"up\n"
    wait_for(lambda: len(marked(mark)) == 2)
    writer.kill()
    writer.communicate()
    wait_for(lambda: marked(mark) == [])
    (run,) = runs(store, "mine").values()
    assert (run.info.status, run.data.metrics["loss"]) == ("KILLED", 1.0)


def test_a_deliverer_whose_writer_is_dead_ends_even_if_the_store_blocks_it(
    tmp_path: Path, store: str
) -> None:
    session = a_session(tmp_path / "first", store)
    session.spool.close()
    database = Path(store.removeprefix("sqlite:///"))
    with database.with_name(f".{database.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = [sys.executable, "-c", IMPATIENT, str(tmp_path / "first")]
        deliverer = subprocess.Popen(words, env=os.environ | {"MLFLOW_TRACKING_URI": store})
        assert deliverer.wait(300) == 1
    assert read_json(tmp_path / "first" / "delivered.json") == {}
