"""Find checkpoints in the folder of a trial, a launch or a study."""

from __future__ import annotations

from pathlib import Path

from zotune.core.names import STATE_FILE, STUDY_FILE
from zotune.errors import CheckpointError


def last_checkpoints(path: Path) -> list[Path]:
    """The checkpoint at a path, or the last of each trial of a launch (a study's newest one)."""
    if path.is_file():
        return [path]
    if (path / STATE_FILE).is_file():
        return [path / STATE_FILE]
    path = _newest_launch(path)
    last = [trial for trial in (_last(path), *map(_last, _folders(path))) if trial is not None]
    if not last:
        raise CheckpointError(
            f"no checkpoint at {path.absolute()}; give a launch's or a trial's folder, "
            "a checkpoint, or the id of an MLflow run"
        )
    return last


def _newest_launch(path: Path) -> Path:
    """The newest launch if the path is a study's folder; else the path itself."""
    launches = sorted(child for child in _folders(path) if (child / STUDY_FILE).is_file())
    return launches[-1] if launches else path


def _folders(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if child.is_dir()) if path.is_dir() else []


def _last(trial: Path) -> Path | None:
    """The newest checkpoint of a trial's folder."""
    found = sorted(trial.glob(f"checkpoint_*/{STATE_FILE}")) if trial.is_dir() else []
    return found[-1] if found else None
