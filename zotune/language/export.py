"""From a finished run to a model's folder: find the checkpoint, put its weights in, write it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zotune.callbacks.artifacts import point_of
from zotune.core.folders import require_writable
from zotune.core.names import STATE_FILE
from zotune.errors import CheckpointError, ConfigError
from zotune.objectives import PROBLEMS
from zotune.results.loading import best_checkpoint, is_run_id
from zotune.runs.checkpoint import read_header, require_same
from zotune.runs.run import Run, run_at

PROBLEM = "language-model"


@dataclass(frozen=True)
class Exported:
    """What was written, and where it came from."""

    folder: Path
    checkpoint: Path
    run: str
    """The run in a few words."""
    loss: float
    accuracy: float | None
    load_with: str
    """The function that loads the folder."""


def export_run(source: Any, folder: str | Path, *, best: bool = False) -> Exported:
    """Write the model of a finished run to a folder, for the function that ``load_with`` names.

    Args:
        source: a Ray Tune ``Result`` or ``Checkpoint``; the path of a checkpoint, of a trial (its
            last checkpoint), of a launch (its best trial) or of a study (its newest launch); or
            the id of an MLflow run.
        folder: where the model goes; it must be empty, or not exist.
        best: take the weights with the lowest validation loss that was looked at, not the last.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already; give a folder that is empty or new")
    require_writable(folder)
    with checkpoint_of(source) as path:
        run = _weights_run(path)
        objective = _objective(run, path, best=best)
        objective.export(folder)
    row = _best_row(run) if best else run.rows[-1]
    load_with = objective.prepared.load_with
    return Exported(folder, path, repr(run), row["loss"], row["accuracy"], load_with)


def _best_row(run: Run) -> dict[str, Any]:
    """The row of the curve whose loss is that of the best weights."""
    return min(run.rows, key=lambda row: abs(row["loss"] - run.best_loss))


def _weights_run(path: Path) -> Run:
    """The run behind a checkpoint; one whole but of no model's weights is told apart."""
    run = run_at(path)
    if run.read_weights is None:
        raise _no_language_model(path, run.config.problem.get("name"))
    return run


def _no_language_model(path: Path, name: str | None) -> CheckpointError:
    of = f"a run of {name!r}" if name else "another run"
    return CheckpointError(
        f"export needs a run of a {PROBLEM}, and {path} is {of}; zotune.load_run reads it"
    )


def _objective(run: Run, path: Path, *, best: bool) -> Any:
    """The model as it was built for the run, with the weights that the run left or kept."""
    problem = run.config.problem
    if problem.get("name") != PROBLEM:
        raise _no_language_model(path, problem.get("name"))
    options = {key: value for key, value in problem.items() if key != "name"}
    objective: Any = PROBLEMS[PROBLEM].build(**options)
    was, now = read_header(path)["fingerprint"], objective.fingerprint()
    require_same(path, {key: was.get(key) for key in now}, now)
    for name, weight in run.weights(best=best).items():
        objective.trained[name].data.copy_(weight)
    return objective


@contextmanager
def checkpoint_of(source: Any) -> Iterator[Path]:
    """The file with the weights behind a result, a checkpoint, a path or an MLflow run."""
    if is_run_id(source):
        with point_of(source) as path:
            yield path
        return
    if hasattr(source, "checkpoint"):
        if source.checkpoint is None:
            raise CheckpointError(f"the result at {source.path} has no checkpoint")
        source = source.checkpoint
    if hasattr(source, "as_directory"):
        with source.as_directory() as folder:
            yield Path(folder) / STATE_FILE
        return
    yield best_checkpoint(Path(source))
