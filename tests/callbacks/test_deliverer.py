"""The process that delivers is ready before there is anything to deliver, and never left alone."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.marked import MARK, marked, new_mark
from tests.servers import wait_for
from zotune.callbacks.deliverer import Deliverer, deliverer_for, prepared, started_early


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """By which the processes of a test are found."""
    found = new_mark()
    monkeypatch.setenv(MARK, found[MARK])
    return found


def has_tables(database: Path) -> bool:
    with suppress(sqlite3.Error):
        names = sqlite3.connect(database).execute("select name from sqlite_master").fetchall()
        return ("runs",) in names
    return False


def test_a_new_store_is_made_while_there_is_no_spool_and_no_process_is_left(
    tmp_path: Path, mark: dict[str, str]
) -> None:
    database = tmp_path / "mlflow.db"
    with prepared(f"sqlite:///{database}"):
        wait_for(lambda: has_tables(database))
        assert len(marked(mark)) == 1
    assert marked(mark) == []


def test_the_next_session_takes_what_was_prepared_for_its_store(
    tmp_path: Path, mark: dict[str, str]
) -> None:
    uri, other = (f"sqlite:///{tmp_path / name}.db" for name in ("one", "other"))
    with prepared(uri):
        strange = deliverer_for(other)
        taken, second = deliverer_for(uri), deliverer_for(uri)
        pids = {one._child.pid for one in (strange, taken, second)}
        assert len(pids) == 3
        wait_for(lambda: pids <= set(marked(mark)))  # the system shows them a moment later
        assert pids == set(marked(mark))  # none beside them: one of the three was prepared
    for one in (strange, taken, second):
        assert one.code is None  # a session that has one ends it
        one.end()


def test_a_command_starts_it_before_the_store_is_known_and_leaves_none(
    tmp_path: Path, mark: dict[str, str]
) -> None:
    database = tmp_path / "mlflow.db"
    with started_early():
        wait_for(lambda: len(marked(mark)) == 1)
        [early] = marked(mark)
        with prepared(f"sqlite:///{database}"):
            wait_for(lambda: has_tables(database))
            assert marked(mark) == [early]
    with started_early():
        wait_for(lambda: len(marked(mark)) == 1)  # of a command that is refused
    assert marked(mark) == []


def test_one_that_is_told_nothing_ends_with_its_writer(tmp_path: Path) -> None:
    mark = new_mark()
    code = (
        "import sys, time; from zotune.callbacks.deliverer import Deliverer\n"
        "kept = Deliverer().open(sys.argv[1]); print('ready', flush=True); time.sleep(600)"
    )
    words = [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'mlflow.db'}"]
    writer = subprocess.Popen(words, env=os.environ | mark, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    with writer.stdout:
        assert writer.stdout.readline() == b"ready\n"
    wait_for(lambda: len(marked(mark)) == 2)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    wait_for(lambda: marked(mark) == [])


def test_one_that_has_died_takes_a_spool_without_a_word(tmp_path: Path) -> None:
    dead = Deliverer().open(f"sqlite:///{tmp_path / 'mlflow.db'}")
    dead._child.kill()
    dead._child.wait()
    dead.deliver(tmp_path)
    assert dead.code == -signal.SIGKILL
    dead.end()
