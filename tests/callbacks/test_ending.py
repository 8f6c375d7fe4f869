"""However ``zotune ui`` is ended, and whenever, none of its processes is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.marked import marked, new_mark
from tests.servers import PATIENCE, wait_for
from zotune.callbacks.stores import open_client

Start = Callable[[], tuple[subprocess.Popen[str], dict[str, str]]]


@pytest.fixture
def ui(store: str) -> Iterator[Start]:
    """Starts ``zotune ui`` on a store with one launch; also says how its processes are marked."""
    client = open_client(store)
    tags = {"zotune.kind": "trial", "zotune.launch_id": "first"}
    client.create_run(client.create_experiment("mine"), tags=tags)
    words = [sys.executable, "-m", "zotune.cli", "ui", "mine", "--tracking-uri", store]
    started: list[tuple[subprocess.Popen[str], dict[str, str]]] = []

    def start() -> tuple[subprocess.Popen[str], dict[str, str]]:
        mark = new_mark()
        process = subprocess.Popen(
            [*words, "--no-open"], env=os.environ | mark, stdout=subprocess.PIPE, text=True
        )
        started.append((process, mark))
        return started[-1]

    yield start
    for process, mark in started:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
        process.communicate()


def serves(mark: dict[str, str]) -> bool:
    """Whether MLflow's server has been started: the command and the supervisor are two."""
    return len(marked(mark)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_server_answers_ends_everything(ui: Start, number: int) -> None:
    process, mark = ui()
    wait_for(lambda: serves(mark))
    process.send_signal(number)
    assert process.wait(PATIENCE) == 130
    assert marked(mark) == []


@pytest.mark.slow
def test_a_killed_command_leaves_no_server(ui: Start) -> None:
    process, mark = ui()
    assert process.stdout is not None
    assert process.stdout.readline().startswith("page: ")
    process.kill()
    process.wait()
    wait_for(lambda: marked(mark) == [])


@pytest.mark.long
@pytest.mark.parametrize("seconds", [1, 2, 4, 7, 10, 14])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_no_moment_leaves_a_process(ui: Start, number: int, seconds: float) -> None:
    process, mark = ui()
    time.sleep(seconds)
    process.send_signal(number)
    assert process.wait(PATIENCE) == (-number if number == signal.SIGKILL else 130)
    wait_for(lambda: marked(mark) == [])


def test_an_interrupt_in_code_that_is_executed_from_text_ends_with_our_exit_code(
    tmp_path: Path,
) -> None:
    (tmp_path / "made.py").write_text(
        "import click\nfrom zotune.cli.group import Group\n"
        "@click.group(cls=Group)\ndef main():\n    pass\n"
        "@main.command()\ndef go():\n    exec('raise KeyboardInterrupt')\n"
        "main(['go'])\n"
    )
    done = subprocess.run([sys.executable, "-m", "made"], cwd=tmp_path, check=False)
    assert done.returncode == 130  # not by SIGINT, which Python has noted
