"""Signal handling, and child processes that never outlive this process.

``supervised`` starts a command under a supervisor process. The supervisor runs this file as a
script and needs only the standard library. It holds the reading end of a pipe whose writing end
only we have. When we close the pipe or die for any reason, the supervisor terminates the command
and all of its descendants.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, termination, and hangup of the terminal."""
GRACE = 4.0
"""Seconds between SIGTERM and SIGKILL."""
POLL = 0.05
PR_SET_CHILD_SUBREAPER = 36
Handler = Callable[[int, FrameType | None], None]


class Interrupt:
    """Whether a signal has asked this process to stop."""

    def __init__(self) -> None:
        self.number = 0
        """The first signal that was received; 0 for none."""
        self.listen: Callable[[], None] = lambda: None
        """Installs the handlers again, after other code (such as Ray) has replaced them."""

    def check(self) -> None:
        """Raise KeyboardInterrupt after a signal; Python drops those raised in destructors."""
        if self.number:
            raise KeyboardInterrupt


@contextmanager
def stoppable() -> Iterator[Interrupt]:
    """Make each of the signals raise KeyboardInterrupt, as Ctrl-C does."""
    stop = Interrupt()

    def handle(number: int, frame: FrameType | None) -> None:
        stop.number = stop.number or number
        raise KeyboardInterrupt

    with handled(handle) as stop.listen:
        yield stop


@contextmanager
def signals_held() -> Iterator[None]:
    """Defer the signals until the context ends.

    A signal mask is not enough: the system may deliver the signal to another thread (of a numerical
    library, say), and Python then handles it in the main thread at once.
    """
    held: list[int] = []
    with handled(lambda number, frame: held.append(number)):
        yield
    for number in held:
        signal.raise_signal(number)


@contextmanager
def unwrapped_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt if Python 3.11 has wrapped one in a RuntimeError.

    This happens if a ``__set_name__`` is interrupted while a class is created, as in imports.
    """
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


@contextmanager
def handled(handler: Handler) -> Iterator[Callable[[], None]]:
    """Install a signal handler; does nothing outside of the main thread.

    Signals that this process was started to ignore (``nohup``) stay ignored.

    Yields:
        A function that installs the handler again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if number == signal.SIGHUP:
            _leave_lost_terminal()
        handler(number, frame)

    before = {number: signal.getsignal(number) for number in STOPS}
    ours = [number for number in STOPS if before[number] is not signal.SIG_IGN]

    def listen() -> None:
        for number in ours:
            signal.signal(number, handle)

    listen()
    try:
        with unwrapped_interrupts(), _sent_again(came):
            yield listen
    finally:
        for number in ours:
            signal.signal(number, before[number] or signal.SIG_DFL)


@contextmanager
def _sent_again(came: Sequence[int]) -> Iterator[None]:
    """Resend the last signal if Python has dropped its KeyboardInterrupt.

    This happens in destructors and in callbacks of weak references, which every import has.
    """
    before, waiting = sys.unraisablehook, list[threading.Timer]()

    def report(dropped: sys.UnraisableHookArgs) -> None:
        if not came or not issubclass(dropped.exc_type, KeyboardInterrupt):
            before(dropped)
            return
        again = threading.Timer(POLL, os.kill, (os.getpid(), came[-1]))
        again.daemon = True
        waiting.append(again)
        again.start()

    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = before
        for again in waiting:
            again.cancel()


def _leave_lost_terminal() -> None:
    """Redirect output to the null device if the terminal is gone: writing to it would raise."""
    for descriptor in (1, 2):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


@contextmanager
def supervised(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdout: int = subprocess.DEVNULL,
    stderr: int | None = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command and all of its descendants until the context or this process ends.

    Args:
        command: the program, as a path, and its arguments.
        env: its environment; default: ours.
        cwd: its working folder; default: ours.
        stdout: as for ``subprocess``; default: the null device.
        stderr: the same.

    Yields:
        The supervisor process, which ends with the command and has its exit code.
    """
    reading, writing = os.pipe()
    process = None
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", __file__, str(reading), *command],
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(reading,),
            start_new_session=True,
        )
        yield process
    finally:
        os.close(reading)
        os.close(writing)
        if process is not None:
            process.wait()


def supervise(lifeline: int, command: Sequence[str]) -> int:
    """Run a command until it ends or the pipe is closed; then end all of its descendants.

    Returns:
        The command's exit code; 128 and the number of the signal that ended it.
    """
    _adopt_orphans()
    os.set_inheritable(lifeline, False)
    usual = [signal.SIGPIPE, signal.SIGXFSZ]  # signals that Python ignores
    group = os.posix_spawn(command[0], list(command), os.environ, setsid=True, setsigdef=usual)

    def end(*_: object) -> None:
        threading.Thread(target=_end_group, args=(group,), daemon=True).start()

    for number in STOPS:
        signal.signal(number, end)
    threading.Thread(target=_when_closed, args=(lifeline, end), daemon=True).start()
    code = _exit_code(group)
    _end_children()
    _signal_group(group, signal.SIGKILL)  # for systems where we cannot adopt orphans
    return code if code >= 0 else 128 - code


def _adopt_orphans() -> None:
    """Become the parent of orphaned descendants, if the system supports it (a subreaper)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _when_closed(lifeline: int, then: Callable[[], None]) -> None:
    while os.read(lifeline, 1):
        pass
    then()


def _exit_code(child: int) -> int:
    """Wait for the child, and reap orphans that end before it."""
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status)


def _end_group(group: int) -> None:
    """Terminate a process group; kill the rest after ``GRACE`` seconds."""
    _signal_group(group, signal.SIGTERM)
    time.sleep(GRACE)
    _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _reaped() -> bool:
    """Reap every child that has ended; return whether none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _end_children() -> None:
    """Terminate all adopted orphans, including later ones; kill them after ``GRACE`` seconds."""
    asked: set[int] = set()
    deadline = time.monotonic() + GRACE
    while not _reaped():
        late = time.monotonic() > deadline
        left = [child.number for child in children()]
        for child in left:
            if late or child not in asked:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL if late else signal.SIGTERM)
        asked.update(left)
        time.sleep(POLL)


@dataclass(frozen=True)
class Process:
    """A process, identified by its number and its start time, as numbers are reused."""

    number: int
    parent: int = field(compare=False)
    """The number of its parent; not compared, as it changes if the parent ends."""
    began: int
    """Start time in system ticks."""

    @property
    def program(self) -> str:
        """The name of its executable; empty if it has ended."""
        with suppress(OSError):
            command = Path(f"/proc/{self.number}/cmdline").read_bytes()
            return Path(os.fsdecode(command.partition(b"\0")[0])).name
        return ""

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        with suppress(OSError):
            if _read(self.number) == self:
                os.kill(self.number, signal.SIGKILL)


def processes() -> list[Process]:
    """All processes of the machine; none if there is no ``/proc``."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.append(_read(int(folder.name)))
    return found


def _read(number: int) -> Process:
    fields = Path(f"/proc/{number}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return Process(number, parent=int(fields[1]), began=int(fields[19]))


def children() -> list[Process]:
    """Our child processes."""
    return [process for process in processes() if process.parent == os.getpid()]


def descendants(ancestors: Iterable[Process]) -> list[Process]:
    """These processes and all of their descendants."""
    everything, found, new = processes(), list[Process](), list(ancestors)
    while new:
        found += new
        numbers = {process.number for process in new}
        new = [one for one in everything if one.parent in numbers and one not in found]
    return found


if __name__ == "__main__":
    sys.exit(supervise(int(sys.argv[1]), sys.argv[2:]))
