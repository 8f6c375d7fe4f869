"""``load_run``: load a run from a result, a checkpoint, a folder or MLflow."""

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
    """Whether something looks like an MLflow run id and is not an existing file or folder."""
    return isinstance(source, str) and bool(RUN_ID.fullmatch(source)) and not Path(source).exists()


def load_run(source: Any) -> Run:
    """Load a run, with its point and curve, from a result or a checkpoint.

    Args:
        source: a Ray Tune ``Result`` or ``Checkpoint``; the checkpoint file of ``minimize``; the
            folder of a checkpoint, of a trial (its last checkpoint), of a launch (its best trial)
            or of a study (its newest launch); or the id of a run that ``MLflowCurves`` logged, in
            the store of ``MLFLOW_TRACKING_URI``, else in ``mlflow.db``.

    The best trial has the lowest loss, and has not diverged unless all have. If trials of a launch
    have different problems (options of the problem are searched), the smallest gap to the
    problem's minimum decides if all minima are known; else the lowest loss, even though it is of
    different functions.

    Returns:
        A ``Run`` with ``x``, ``best_x``, ``curve`` and ``status``; for a model with ``weights()``.
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
