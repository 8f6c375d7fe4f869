"""The process that delivers a spool, as the one that writes it sees it.

MLflow's import and the tables of a new store take seconds. A launch starts the process first, so
that both are done by the time that there is something to deliver.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zotune.callbacks.stores import QUIET, URI

_READY: dict[str, Deliverer] = {}
"""Processes of this one that have no spool yet, by the store they have opened."""


class Deliverer:
    """A child process; it waits for the name of its spool, and ends if none can come any more.

    Args:
        uri: of the store, with its credentials; by the environment, and nowhere else.
    """

    def __init__(self, uri: str) -> None:
        import zotune

        root = str(Path(zotune.__file__).parent.parent)
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "zotune.callbacks.delivery"],
            env={**QUIET, **os.environ, URI: uri, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the study
        )

    def deliver(self, spool: Path) -> None:
        """Deliver a spool to its end; a process that has died meanwhile is seen by ``code``."""
        assert self._child.stdin is not None  # it is a pipe
        with suppress(BrokenPipeError):
            self._child.stdin.write(os.fsencode(spool) + b"\n")
            self._child.stdin.close()

    @property
    def code(self) -> int | None:
        """What the process has ended with; None while it runs."""
        return self._child.poll()

    def end(self) -> None:
        """End the process, if it runs."""
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        if self._child.stdin is not None:
            with suppress(BrokenPipeError):
                self._child.stdin.close()


@contextmanager
def prepared(uri: str | None) -> Iterator[None]:
    """A deliverer that gets ready for the next session with a store; None: for no store."""
    if uri is None or uri in _READY:
        yield
        return
    _READY[uri] = Deliverer(uri)
    try:
        yield
    finally:
        if (unused := _READY.pop(uri, None)) is not None:
            unused.end()


def deliverer_for(uri: str) -> Deliverer:
    """The deliverer that was prepared for a store, or a new one."""
    return _READY.pop(uri, None) or Deliverer(uri)
