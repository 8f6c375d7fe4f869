"""Export the model of a finished run: find the checkpoint, load its weights, write the folder."""

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
    """The exported folder, and its source."""

    folder: Path
    checkpoint: Path
    run: str
    """A short description of the run."""
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
        folder: the output folder; it must be empty, or not exist.
        best: export the weights with the lowest evaluated validation loss instead of the last.
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
    """Load the run of a checkpoint; raises a specific error if it is not of a model's weights."""
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
    """The model as built for the run, with its last or best weights."""
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
    """The file with the weights of a result, a checkpoint, a path or an MLflow run."""
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
