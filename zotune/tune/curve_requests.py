"""How a driver's callback asks the workers of its experiment for their curve points."""

from __future__ import annotations

from contextlib import suppress

import ray
from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_put,
)


def ask_for_curves(experiment: str) -> None:
    """Let our trainables of an experiment send their curve points, wherever they run."""
    if ray.is_initialized():
        _internal_kv_put(_key(experiment), b"1")


def stop_asking(experiment: str) -> None:
    """Rows alone from now on."""
    if ray.is_initialized():
        with suppress(Exception):
            _internal_kv_del(_key(experiment))


def curves_wanted(experiment: str) -> bool:
    """Whether the driver of this worker asked; False where nobody can be asked."""
    if ray.is_initialized():
        with suppress(Exception):
            return bool(_internal_kv_get(_key(experiment)) == b"1")
    return False


def _key(experiment: str) -> bytes:
    """Two drivers on one cluster may have experiments of one name."""
    job = ray.get_runtime_context().get_job_id()
    return f"zotune:curves:{job}:{experiment}".encode()
