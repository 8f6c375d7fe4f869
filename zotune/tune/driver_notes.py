"""Messages from the driver of an experiment to its workers, in Ray's key-value store."""

from __future__ import annotations

import ray
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_put


def leave(note: str, what: str, *whose: str) -> None:
    """Write a message, replacing an earlier one; does nothing without Ray."""
    if ray.is_initialized():
        _internal_kv_put(_key(what, *whose), note.encode())


def read(what: str, *whose: str) -> str | None:
    """Read a message; None if there is none."""
    found: bytes | None = None
    if ray.is_initialized():
        found = _internal_kv_get(_key(what, *whose))
    return None if found is None else found.decode()


def remove(what: str, *whose: str) -> None:
    """Delete a message."""
    if ray.is_initialized():
        _internal_kv_del(_key(what, *whose))


def _key(*parts: str) -> bytes:
    """The key, including the driver's job, as two drivers of a cluster may use the same names."""
    what, *whose = parts
    job = ray.get_runtime_context().get_job_id()
    return ":".join(["zotune", what, str(job), *whose]).encode()
