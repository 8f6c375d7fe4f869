"""Signals stop a command as Ctrl-C does; what a command has started never outlives it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from tests.marked import marked, new_mark
from tests.servers import PATIENCE, wait_for
from zotune.core.processes import STOPS, handled, signals_held, stoppable, supervised

FAMILY = """
import signal, subprocess, sys, time
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[1] != "0":
    words = [sys.executable, __file__, str(int(sys.argv[1]) - 1), sys.argv[2]]
    subprocess.Popen(words, start_new_session=True)
time.sleep(600)
"""
"""A process with a child and a grandchild in sessions of their own; deaf ones ignore SIGTERM."""
PARENT = """
import sys, time
from zotune.core.processes import supervised
with supervised(sys.argv[1:]):
    time.sleep(600)
"""
# Under nohup the signal would be ignored. Short naps, because a signal that falls between Python's
# check and the system call of a long one would wait for its end.
ON_TERMINAL = """
import fcntl, signal, sys, termios, time
from zotune.core.processes import stoppable
signal.signal(signal.SIGHUP, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY)
try:
    with stoppable():
        print("up", flush=True)
        while True:
            time.sleep(0.1)
except KeyboardInterrupt:
    print("written to a terminal that has gone", flush=True)
    sys.exit(130)
"""


@pytest.fixture
def family(tmp_path: Path) -> list[str]:
    (tmp_path / "family.py").write_text(FAMILY)
    return [sys.executable, str(tmp_path / "family.py"), "2"]


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_is_an_interrupt_and_the_handlers_are_put_back(number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), stoppable():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_that_is_held_back_is_handled_at_the_end_though_other_threads_could_take_it(
    number: int,
) -> None:
    released, seen = threading.Event(), list[str]()

    def work() -> None:
        with stoppable(), signals_held():
            os.kill(os.getpid(), number)
            time.sleep(0.2)
            seen.append("the end")

    threading.Thread(target=released.wait, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        work()
    released.set()
    assert seen == ["the end"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_drops_in_a_destructor_is_found_later() -> None:
    class Dropping:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    with stoppable() as stop:
        stop.check()
        Dropping()
        with pytest.raises(KeyboardInterrupt):
            stop.check()


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_can_be_set_again_after_somebody_else_has_set_others() -> None:
    seen: list[int] = []
    with handled(lambda number, frame: seen.append(number)) as listen:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.raise_signal(signal.SIGTERM)
        listen()
        signal.raise_signal(signal.SIGTERM)
    assert seen == [signal.SIGTERM]


def test_other_threads_than_the_main_one_change_no_handler() -> None:
    failed: list[BaseException] = []

    def enter() -> None:
        try:
            with stoppable() as stop:
                stop.check()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert not failed


def test_a_command_whose_terminal_is_closed_ends_in_order() -> None:
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    assert os.read(terminal, 2) == b"up"
    os.close(terminal)
    assert process.wait(PATIENCE) == 130


def test_a_command_is_supervised_to_its_end_and_its_exit_code_is_told() -> None:
    words = [sys.executable, "-c", "import os, sys; print(os.getcwd()); sys.exit(3)"]
    with supervised(words, cwd=Path("/"), stdout=subprocess.PIPE) as process:
        assert process.communicate(timeout=PATIENCE)[0] == b"/\n"
    assert process.returncode == 3


def test_leaving_the_context_ends_processes_that_ignore_signals_and_have_left_the_group(
    family: list[str],
) -> None:
    mark = new_mark()
    with supervised([*family, "deaf"], env=os.environ | mark):
        wait_for(lambda: len(marked(mark)) == 4)
    assert marked(mark) == []


def test_nothing_outlives_a_parent_that_is_killed(family: list[str]) -> None:
    mark = new_mark()
    words = [sys.executable, "-c", PARENT, *family, "polite"]
    parent = subprocess.Popen(words, env=os.environ | mark)
    wait_for(lambda: len(marked(mark)) == 5)
    parent.kill()
    parent.wait()
    wait_for(lambda: marked(mark) == [])


def test_a_signal_while_a_class_is_created_is_a_keyboard_interrupt() -> None:
    class Slow:
        def __set_name__(self, owner: type, name: str) -> None:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt), stoppable() as stop:
        type("Imported", (), {"attribute": Slow()})
    assert stop.number == signal.SIGTERM


def test_other_errors_of_a_class_that_is_created_stay_what_they_are() -> None:
    class Broken:
        def __set_name__(self, owner: type, name: str) -> None:
            raise ValueError("no name")

    with pytest.raises((RuntimeError, ValueError), match=r"no name|__set_name__"), stoppable():
        type("Imported", (), {"attribute": Broken()})


def test_a_signal_whose_interrupt_python_drops_in_a_callback_comes_again() -> None:
    with pytest.raises(KeyboardInterrupt), stoppable():
        _wait_after_a_dropped_signal()


def _wait_after_a_dropped_signal() -> None:
    class Watched:
        pass

    watched = Watched()
    _kept = weakref.ref(watched, lambda _: signal.raise_signal(signal.SIGTERM))
    del watched  # Python only reports what its callback raises
    time.sleep(60)
