"""``zotune run`` that is killed, interrupted and asked to end, in processes of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import torch

import zotune
from tests.callbacks.conftest import Gate, history, runs
from tests.conftest import QUIET
from tests.instrument import INSTRUMENT, plain_study
from tests.marked import marked, new_mark
from tests.servers import PATIENCE, Server, wait_for
from tests.solo import reported, untimed
from tests.study.small import invoke

SLOW: dict[str, Any] = {
    "name": "slow",
    "problem": {"name": "quadratic", "dim": 60},
    "budget": 2000,
    "report_every": 20,
    "replicates": 5,
    "space": {"q": [1, 2, 50]},
    "resources": {"cpu": 1},
}


class Session:
    """``zotune run`` in a process group of its own, as a terminal would start it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "slow.yaml"
        self.path.write_text(plain_study(**SLOW).to_yaml())
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self, *words: str, uri: str | None = "none", **environment: str
    ) -> subprocess.Popen[str]:
        program = [sys.executable, "-m", "zotune.cli", "run", str(self.path)]
        environment |= {k: v for k, v in os.environ.items() if k not in QUIET}
        options = ["--storage", str(self.folder / "out")]
        options += [] if uri is None else ["--tracking-uri", uri]
        self.started.append(
            subprocess.Popen(
                [*program, *options, *words],
                env=environment | {"TUNE_GLOBAL_CHECKPOINT_S": "0"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return self.started[-1]

    def launches(self) -> list[Path]:
        return sorted((self.folder / "out" / "slow").glob("*"))

    def running(self) -> dict[int, Path]:
        """Folders by the process that runs in them."""
        records = {f: f / "launch.json" for f in self.launches()}
        return {json.loads(r.read_text())["pid"]: f for f, r in records.items() if r.is_file()}

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture
def session(tmp_path: Path) -> Any:
    made = Session(tmp_path)
    yield made
    made.end()


def checkpoints(launch: Path) -> int:
    return len(list(launch.glob("*/checkpoint_*")))


def newest(launch: Path) -> float:
    """When the newest checkpoint of a launch was written."""
    return max(folder.stat().st_mtime for folder in launch.glob("*/checkpoint_*"))


def assert_undisturbed(launch: Path) -> None:
    """Every curve and every point is bit for bit that of a run in this process."""
    for q in (1, 2, 50):
        trial = max(launch.glob(f"*_q{q}"), key=lambda folder: folder.stat().st_mtime)
        run = zotune.load_run(max(trial.glob("checkpoint_*")))
        settings = {k: SLOW[k] for k in ("budget", "report_every", "replicates")}
        alone = reported(SLOW["problem"], **{**INSTRUMENT, **settings, "q": q})
        assert torch.equal(run.x, alone.x)
        assert untimed(run.rows) == alone.rows
        assert run.state.ledger == alone.state.ledger


@pytest.mark.slow
def test_a_killed_driver_resumes_bit_for_bit_beside_another_launch(session: Session) -> None:
    victim, other = session.start("--json"), session.start("--json")
    wait_for(lambda: victim.pid in session.running())
    killed = session.running()[victim.pid]
    wait_for(lambda: checkpoints(killed) >= 3)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.communicate()
    wait_for(lambda: other.pid in session.running())
    resumed = session.start("--resume", "--json")
    outputs = [process.communicate(timeout=PATIENCE) for process in (resumed, other)]
    assert resumed.returncode == 0, outputs[0]
    assert other.returncode == 0, outputs[1]
    found = [json.loads(out) for out, _ in outputs]
    assert found[0]["launch"] == killed.name != found[1]["launch"]
    assert [one["trials"] for one in found] == [3, 3]
    for launch in session.launches():
        assert_undisturbed(launch)


def assert_interrupted(process: subprocess.Popen[str], launch: Path) -> None:
    """The command has said how to go on, and nothing else; the launch says what has happened."""
    out, err = process.communicate()
    assert process.returncode == 130, (out, err)
    assert err == ""
    assert f"--resume {launch.name}" in out.splitlines()[-1]
    assert re.search(r"interrupted +│", out)  # in the table
    assert "failed" not in out
    assert json.loads((launch / "launch.json").read_text())["state"] == "interrupted"


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_a_study_interrupted_twice_keeps_everything_and_ends_as_if_undisturbed(
    session: Session, store: str
) -> None:
    """First by Ctrl-C, then by SIGTERM, which counts as Ctrl-C however often it comes."""
    first, mark = session.start(uri=store), new_mark()
    wait_for(lambda: bool(session.launches()) and checkpoints(session.launches()[0]) >= 3)
    os.killpg(first.pid, signal.SIGINT)
    first.wait()
    (launch,) = session.launches()
    assert_interrupted(first, launch)
    assert {run.info.status for run in runs(store, "slow").values()} <= {"KILLED", "FINISHED"}
    saved = newest(launch)
    again = session.start("--resume", launch.name, uri=None, **mark)
    wait_for(lambda: newest(launch) > saved)
    again.send_signal(signal.SIGTERM)
    again.send_signal(signal.SIGTERM)
    again.wait()
    assert_interrupted(again, launch)
    wait_for(lambda: marked(mark) == [])
    done = invoke("run", session.path, "--storage", session.folder / "out", "--resume", uri=store)
    assert done.exit_code == 0, done.output
    assert "3/3 " in done.output
    assert_undisturbed(launch)
    recorded = runs(store, "slow")
    assert f"page: zotune ui slow --tracking-uri {store} (in" in done.output
    assert {run.info.status for run in recorded.values()} == {"FINISHED"}
    assert {len(history(store, run, "loss")) for run in recorded.values()} == {320}


@pytest.mark.long
def test_a_closed_terminal_is_taken_as_ctrl_c(session: Session) -> None:
    mark = new_mark()
    process = session.start(**mark)
    wait_for(lambda: bool(session.launches()) and checkpoints(session.launches()[0]) >= 3)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)
    process.wait()
    assert_interrupted(process, session.launches()[0])
    wait_for(lambda: marked(mark) == [])


@pytest.mark.slow
def test_a_request_to_end_that_reaches_every_process_keeps_what_there_is(session: Session) -> None:
    """As by ``timeout`` and by job schedulers, which signal the whole process group."""
    mark = new_mark()
    process = session.start(**mark)
    wait_for(lambda: bool(session.launches()) and checkpoints(session.launches()[0]) >= 3)
    os.killpg(process.pid, signal.SIGTERM)
    process.wait()
    assert_interrupted(process, session.launches()[0])
    wait_for(lambda: marked(mark) == [])


def test_a_request_to_end_before_any_trial_says_how_to_go_on(session: Session) -> None:
    mark = new_mark()
    process = session.start(**mark)
    wait_for(lambda: process.pid in session.running())
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE)
    (launch,) = session.launches()
    assert process.returncode == 130, (out, err)
    assert err == ""
    assert f"--resume {launch.name}" in out.splitlines()[-1]
    wait_for(lambda: marked(mark) == [])


class Locked(Gate):
    """A server that lets in nobody without the password."""

    def _forward(self, client: socket.socket, request: bytes) -> None:
        if b"Basic " + b64encode(b"me:open-sesame") in request:
            super()._forward(client, request)
        else:
            client.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.faults
def test_a_resumed_launch_takes_the_password_of_its_option_and_prints_none(
    session: Session, running_server: Server
) -> None:
    gate = Locked(running_server.port)
    uri = gate.uri.replace("//", "//me:open-sesame@")
    first = session.start(uri=uri)
    wait_for(lambda: bool(session.launches()) and checkpoints(session.launches()[0]) >= 3)
    os.killpg(first.pid, signal.SIGINT)
    out, err = first.communicate(timeout=PATIENCE)
    (launch,) = session.launches()
    assert first.returncode == 130, (out, err)
    assert out.rstrip().endswith(f"--tracking-uri {gate.uri} --resume {launch.name}")
    other = session.start("--resume", launch.name, uri="none")
    assert "cannot continue in none" in other.communicate(timeout=PATIENCE)[1]
    assert other.returncode == 2
    again = session.start("--resume", launch.name, uri=uri)
    said = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, said
    assert "sesame" not in out + err + said[0] + said[1]
    assert f"page: {gate.uri}/#/experiments/" in said[0]
    recorded = runs(f"http://127.0.0.1:{running_server.port}", "slow")
    assert {run.info.status for run in recorded.values()} == {"FINISHED"}
    written = [path for path in session.folder.rglob("*") if path.is_file()]
    assert [path for path in written if b"open-sesame" in path.read_bytes()] == []
    gate.close()
