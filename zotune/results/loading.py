"""The run behind whatever people have at hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from zotune.callbacks.artifacts import run_from_mlflow
from zotune.core.names import RUN_ID
from zotune.errors import CheckpointError
from zotune.runs import run
from zotune.runs.lookup import last_checkpoints
from zotune.runs.run import Run, run_at


def is_run_id(source: object) -> bool:
    """Whether something is the id of an MLflow run, and no file or folder of that name."""
    return isinstance(source, str) and bool(RUN_ID.fullmatch(source)) and not Path(source).exists()


def load_run(source: Any) -> Run:
    """The run behind a result or a checkpoint: the point back, not only the number.

    Args:
        source: a Ray Tune ``Result`` or ``Checkpoint``; the file that ``minimize`` wrote; the
            folder of a checkpoint, of a trial (its last checkpoint), of a launch (its best trial)
            or of a study (its newest launch); or the id of a run that ``MLflowCurves`` logged, in
            the store that ``MLFLOW_TRACKING_URI`` names, else in ``mlflow.db``.

    The best trial has the lowest loss, and has not diverged unless all have. Where trials of a
    launch have different problems (options of the problem are searched), it is the smallest gap
    above its own problem's minimum if all minima are known; else it is the lowest loss still,
    though of different functions.

    Returns:
        A ``Run`` with ``x``, ``best_x``, ``curve`` and ``status``; of a model with ``weights()``.
    """
    if is_run_id(source):
        return run_from_mlflow(source)
    if hasattr(source, "checkpoint") or hasattr(source, "as_directory"):
        return run.load_run(source)
    if not isinstance(source, str | os.PathLike):
        one = "; give one of its results, such as .get_best_result()"
        raise CheckpointError(
            "load_run takes a result of Tune, a checkpoint, a folder or the id of an MLflow run, "
            f"got {type(source).__name__}{one if hasattr(source, 'get_best_result') else ''}"
        )
    return run_at(best_checkpoint(Path(source)))


def best_checkpoint(path: Path) -> Path:
    """The checkpoint at a path; the last of a trial, the best of a launch or a study's newest."""
    last = last_checkpoints(path)
    if len(last) == 1:
        return last[0]
    from zotune.results.checkpoints import from_checkpoint
    from zotune.results.configurations import best_trial

    return Path(best_trial([from_checkpoint(one) for one in last]).id)
