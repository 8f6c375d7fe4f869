"""Ray Tune callbacks of zotune; import them as ``zotune.callbacks``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ == "callbacks":
    raise ImportError(
        "this folder is the package zotune.callbacks, not a package 'callbacks'; "
        "import zotune.callbacks"
    )

if TYPE_CHECKING:
    from zotune.callbacks.artifacts import run_from_mlflow
    from zotune.callbacks.delivery import sync
    from zotune.callbacks.fail_fast import FailFast
    from zotune.callbacks.mlflow_curves import MLflowCurves
    from zotune.callbacks.paced_checkpoints import PacedCheckpoints
    from zotune.study.progress import Progress

_HOMES = {
    "FailFast": "zotune.callbacks.fail_fast",
    "MLflowCurves": "zotune.callbacks.mlflow_curves",
    "PacedCheckpoints": "zotune.callbacks.paced_checkpoints",
    "Progress": "zotune.study.progress",
    "run_from_mlflow": "zotune.callbacks.artifacts",
    "sync": "zotune.callbacks.delivery",
}

__all__ = ["FailFast", "MLflowCurves", "PacedCheckpoints", "Progress", "run_from_mlflow", "sync"]


def __getattr__(name: str) -> Any:
    """Import a callback, and Ray with it, when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'zotune.callbacks' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
