"""Start and control the child process that delivers a spool to MLflow.

Importing MLflow and creating the tables of a new store take seconds. Therefore a launch starts the
process early, and a command starts it even before its own imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from zotune.callbacks.stores import QUIET

_READY: dict[str, Deliverer] = {}
"""Child processes that have no spool yet, by the store that they have opened."""
_EARLY: list[Deliverer] = []
"""The child process that has no store yet, if a command has started one."""


class Deliverer:
    """A child process that imports MLflow, and waits for the names of its store and its spool.

    It ends if the pipe is closed. The store's address with its credentials is sent through the pipe
    only.
    """

    def __init__(self) -> None:
        import zotune

        root = str(Path(zotune.__file__).parent.parent)
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "zotune.callbacks.delivery"],
            env={**QUIET, **os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C does not reach it
        )

    def open(self, uri: str) -> Deliverer:
        """Send the store's address; the process opens it."""
        self._tell(uri)
        return self

    def deliver(self, spool: Path) -> None:
        """Deliver a spool to its end; ``code`` shows if the process has died."""
        self._tell(spool)
        with suppress(BrokenPipeError):
            self._pipe.close()

    def _tell(self, name: str | Path) -> None:
        with suppress(BrokenPipeError):
            self._pipe.write(os.fsencode(name) + b"\n")
            self._pipe.flush()

    @property
    def _pipe(self) -> IO[bytes]:
        assert self._child.stdin is not None  # it was asked for
        return self._child.stdin

    @property
    def code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return self._child.poll()

    def end(self) -> None:
        """End the process, if it runs."""
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        with suppress(BrokenPipeError):
            self._pipe.close()


@contextmanager
def started_early() -> Iterator[None]:
    """Start a deliverer early, for the first store of this context."""
    _EARLY.append(Deliverer())
    try:
        yield
    finally:
        while _EARLY:
            _EARLY.pop().end()


@contextmanager
def prepared(uri: str | None) -> Iterator[None]:
    """A deliverer that gets ready for the next session with a store; None: for no store."""
    if uri is None or uri in _READY:
        yield
        return
    _READY[uri] = (_EARLY.pop() if _EARLY else Deliverer()).open(uri)
    try:
        yield
    finally:
        if (unused := _READY.pop(uri, None)) is not None:
            unused.end()


def deliverer_for(uri: str) -> Deliverer:
    """The deliverer that was prepared for a store, or a new one."""
    return _READY.pop(uri, None) or Deliverer().open(uri)
