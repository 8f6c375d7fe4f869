"""The spool: a durable queue of records on disk, one line each, appended and synced.

A spool is a folder. ``spool.json`` describes the launch, ``records.jsonl`` has the records, and
``delivered.json`` says how far they have been delivered. One process writes, another delivers; each
holds a lock that is released when the process ends, even by a crash.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from zotune.errors import ZotuneError

FOLDER = "curves"
"""The subfolder of an experiment's folder for its spools."""
ABOUT, RECORDS, DELIVERED = "spool.json", "records.jsonl", "delivered.json"
WRITER, DELIVERER = ".writer", ".deliverer"
PATIENCE = 0.0042
"""Maximum seconds that a writer waits for the disk to sync."""
Record = dict[str, Any]


class SpoolError(ZotuneError, RuntimeError):
    """A spool that cannot be written or read."""


class Spool:
    """The writing end of a spool; removes a line truncated by a crash when it is opened."""

    def __init__(self, folder: Path, about: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self._lock: int | None = None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(folder / RECORDS, os.O_RDWR | os.O_CREAT, 0o600)
        self._lock = _take(folder / WRITER)
        if self._lock is None:
            os.close(self._file)
            raise SpoolError(f"{folder} is written by another process; end that one first")
        if about is not None and not (folder / ABOUT).exists():
            write_json(folder / ABOUT, about)
        self._syncs = ThreadPoolExecutor(1, "zotune-sync")
        self._end = read_records(folder)[1]
        os.ftruncate(self._file, self._end)

    @property
    def size(self) -> int:
        """Size of complete records in bytes."""
        return self._end

    def append(self, *records: Record) -> None:
        """Write all of the records or none, and sync them.

        Written records survive a crash of this process. Syncing, so that they survive a crash of
        the machine, is waited for at most ``PATIENCE`` seconds; it then continues in the
        background.
        """
        data = b"".join(encode(record) for record in records)
        try:
            written = os.pwrite(self._file, data, self._end)
            if written != len(data):
                raise OSError(f"{written} of {len(data)} bytes were written")
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise
        self._end += len(data)
        with suppress(TimeoutError):
            self._syncs.submit(os.fdatasync, self._file).result(PATIENCE)

    def close(self) -> None:
        """Sync and close the spool."""
        lock, self._lock = self._lock, None
        if lock is not None:
            self._syncs.shutdown()
            os.close(self._file)
            os.close(lock)

    def __del__(self) -> None:
        self.close()


def encode(record: Record) -> bytes:
    """A record as one line; numbers are preserved exactly."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def read_records(folder: Path, offset: int = 0) -> tuple[list[Record], int]:
    """Complete records from an offset on, and the offset after them."""
    try:
        with (folder / RECORDS).open("rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], offset
    records = []
    for line in data.splitlines(keepends=True):
        record = _parse(line)
        if record is None:
            break
        records.append(record)
        offset += len(line)
    return records, offset


def _parse(line: bytes) -> Record | None:
    """The record of a line; None if it is incomplete."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def read_json(path: Path) -> dict[str, Any]:
    """Read a small JSON file; empty if it does not exist."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a small JSON file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def find_spools(folder: Path) -> list[Path]:
    """Spools in a folder or below it, sorted by name.

    Ignores folders that Tune deletes in the meantime (mostly checkpoints).
    """
    below = (Path(at) for at, _, files in os.walk(folder) if ABOUT in files)
    return sorted(at for at in below if _is_spool(at))


def _is_spool(folder: Path) -> bool:
    return (folder / RECORDS).exists() and "launch_id" in read_json(folder / ABOUT)


def is_written(folder: Path) -> bool:
    """Whether a living process has the spool open for writing."""
    lock = _take(folder / WRITER, fcntl.LOCK_SH)
    if lock is not None:
        os.close(lock)
    return lock is None


@contextmanager
def delivering(folder: Path) -> Iterator[bool]:
    """Lock the delivery of a spool; yields False if another process has the lock."""
    lock = _take(folder / DELIVERER)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _take(path: Path, kind: int = fcntl.LOCK_EX) -> int | None:
    """Take a lock; returns its descriptor, not inheritable, or None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
