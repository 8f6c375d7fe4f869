"""Notes that the driver of an experiment leaves for its workers, in Ray's key-value store."""

from __future__ import annotations

import ray
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_put


def leave(note: str, what: str, *whose: str) -> None:
    """Write a note, in place of an earlier one; nothing where there is no Ray."""
    if ray.is_initialized():
        _internal_kv_put(_key(what, *whose), note.encode())


def read(what: str, *whose: str) -> str | None:
    """The note that was left; None where there is none."""
    found: bytes | None = None
    if ray.is_initialized():
        found = _internal_kv_get(_key(what, *whose))
    return None if found is None else found.decode()


def remove(what: str, *whose: str) -> None:
    """Take a note away."""
    if ray.is_initialized():
        _internal_kv_del(_key(what, *whose))


def _key(*parts: str) -> bytes:
    """The driver's job is part of it: two drivers of one cluster may use the same names."""
    what, *whose = parts
    job = ray.get_runtime_context().get_job_id()
    return ":".join(["zotune", what, str(job), *whose]).encode()
