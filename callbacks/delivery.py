"""Delivers spools: the loop of the child process of ``MLflowCurves``, and of ``zotune sync``."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zotune.callbacks.answers import StoreError
from zotune.callbacks.slim_mlflow import import_mlflow
from zotune.callbacks.spool import (
    ABOUT,
    SpoolError,
    delivering,
    find_spools,
    is_written,
    read_json,
    read_records,
)
from zotune.callbacks.stores import (
    database_of,
    open_client,
    resolve_uri,
    with_credentials,
    without_credentials,
)
from zotune.callbacks.tracking import Delivery
from zotune.errors import ZotuneError

POLL, LONGEST_PAUSE = 0.2, 2.0
ORPHANED = 60.0
"""Seconds without progress after which a delivery ends, once the writer of the spool has died."""


@dataclass(frozen=True)
class SyncReport:
    """What a sync did to one spool."""

    folder: Path
    launch_id: str
    points: int
    """Points that the store lacked."""
    left: int
    """Bytes of records that could not be delivered."""
    problem: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the store has everything."""
        return not self.left and not self.problem


def sync(
    folder: str | os.PathLike[str], tracking_uri: str | None = None, *, seconds: float = 60.0
) -> list[SyncReport]:
    """Deliver everything that the spools in a folder hold; what the store has is not sent again.

    Args:
        folder: of an experiment or a launch, or one that holds several.
        tracking_uri: of the store; unless given, the one each spool was written for, with the
            credentials of ``MLFLOW_TRACKING_URI``.
        seconds: how long a store that does not answer is tried.

    Returns:
        A report for each spool.
    """
    found = find_spools(Path(folder))
    if not found:
        raise SpoolError(f"no curves in {folder}; give the folder of an experiment or a launch")
    return [_sync_one(spool, tracking_uri, seconds) for spool in found]


def _sync_one(folder: Path, tracking_uri: str | None, seconds: float) -> SyncReport:
    about = read_json(folder / ABOUT)
    uri = resolve_uri(tracking_uri or with_credentials(about["tracking_uri"]))
    delivery = Delivery(folder, uri)
    with delivering(folder) as ours:
        if not ours:
            problem = "another process is delivering it"
        else:
            problem = deliver(delivery, give_up=seconds, follow=False)
    left = read_records(folder, delivery.offset)[1] - delivery.offset
    return SyncReport(folder, about["launch_id"], delivery.points, left, problem)


def deliver(delivery: Delivery, *, give_up: float, follow: bool) -> str:
    """Deliver everything; what is wrong, if the store does not let us.

    Args:
        delivery: of a spool to a store.
        give_up: seconds after which a store that does not answer is left, if nobody writes.
        follow: wait for what a living writer adds, until it says that there is no more.
    """
    deadline, pause = time.monotonic() + give_up, POLL
    while True:
        try:
            written = is_written(delivery.folder)
            if written and follow:
                delivery.watch()
            while delivery.advance():
                deadline, pause = time.monotonic() + give_up, POLL
            if delivery.closed or not (written and follow):
                if delivery.closed or not written:
                    delivery.finish()
                delivery.note()
                return delivery.refused
            deadline = time.monotonic() + give_up
            time.sleep(POLL)
        except Exception as error:
            problem = _told(error)
            delivery.forget()
            delivery.note(problem, silent=isinstance(error, StoreError))
            waited = time.monotonic() + pause > deadline
            if waited and not (follow and is_written(delivery.folder)):
                return problem
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _told(error: Exception) -> str:
    """An error in words; what we raise ourselves needs no name."""
    named = str(error) if isinstance(error, ZotuneError) else f"{type(error).__name__}: {error}"
    return without_credentials(named)[:500]


def main(folder: str | None = None) -> None:
    """The child process of ``MLflowCurves``.

    Unless the spool is named, with the store in the environment, it imports MLflow and reads the
    names of both from its standard input. It lives as long as the writer of the spool. When that
    has died, it delivers what is on disk and ends, at the latest a minute after the store has taken
    something; ``zotune sync`` does the rest.
    """
    gc.set_threshold(200_000, 20, 50)  # a store makes many small objects; a quarter faster
    atexit.register(gc.freeze)  # the end of the process looks at none of them again: a second
    spool, uri = (Path(folder), resolve_uri()) if folder is not None else _told_names()
    delivery = Delivery(spool, uri)
    threading.Thread(target=_end_orphan, args=(delivery,), daemon=True).start()
    while True:
        with delivering(spool) as ours:
            if ours:
                deliver(delivery, give_up=ORPHANED, follow=True)
                return
        time.sleep(POLL)


def _told_names() -> tuple[Path, str]:
    """The spool and the store that the writer names; a store that is a file is opened before."""
    with suppress(Exception):  # what fails is tried again, and told
        import_mlflow()
    uri = _told_name()
    with suppress(Exception):
        if database_of(uri) is not None:
            open_client(uri)
    return Path(_told_name()), uri


def _told_name() -> str:
    """The next line of the standard input; this process ends where there is none."""
    name = sys.stdin.buffer.readline().rstrip(b"\n")
    if not name:  # the writer has died, or wants nothing delivered
        os._exit(0)
    return os.fsdecode(name)


def _end_orphan(delivery: Delivery) -> None:
    """End this process, whatever it waits for, if it makes no progress and the writer has died."""
    steps, since = -1, time.monotonic()
    while time.monotonic() - since < ORPHANED:
        if delivery.steps != steps or is_written(delivery.folder):
            steps, since = delivery.steps, time.monotonic()
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
