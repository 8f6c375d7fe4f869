"""The point behind a run's numbers: stored with the run, and brought back."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zotune.callbacks.stores import open_client, resolve_uri, without_credentials
from zotune.core.names import POINT_TAG, STATE_FILE
from zotune.errors import CheckpointError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from zotune.runs.run import Run

PLACE, REPORT = "point", "report"
LARGEST = 256 * 2**20
"""Bytes above which a state stays in its checkpoint."""


def upload_point(client: MlflowClient, run_id: str, checkpoint: str | None) -> str:
    """Store a checkpoint's state with the run; why not, if it is not."""
    if checkpoint is None or not (state := Path(checkpoint, STATE_FILE)).is_file():
        return ""
    if state.stat().st_size > LARGEST:
        return f"too large to be stored here; it is in the checkpoint {state.parent.name}"
    return keep(client, run_id, lambda: client.log_artifact(run_id, str(state), PLACE))


def attach_report(client: MlflowClient, run_id: str, folder: Path) -> str:
    """Store a report with the launch's own run; why not, if it is not."""
    if not folder.is_dir():
        return f"there is no {folder.name}"
    return keep(client, run_id, lambda: client.log_artifacts(run_id, str(folder), REPORT))


def keep(client: MlflowClient, run_id: str, store: Callable[[], object]) -> str:
    """Store an artifact; why not, if the store answers and only its place for files does not."""
    try:
        store()
    except Exception as error:
        client.get_run(run_id)  # raises where nothing answers, and everything is tried again
        return without_credentials(f"not stored: {type(error).__name__}: {error}")[:500]
    return ""


def run_from_mlflow(run_id: str, tracking_uri: str | None = None) -> Run:
    """The run behind an MLflow run: the point back, not only the number.

    Args:
        run_id: of a trial that ``MLflowCurves`` logged.
        tracking_uri: of the store; ``MLFLOW_TRACKING_URI``, else ``mlflow.db``, unless given.
    """
    from zotune.runs.run import load_run

    with point_of(run_id, tracking_uri) as path:
        run = load_run(path)
        if run.read_weights is None:
            return run
        kept = {best: run.read_weights(best) for best in (False, True)}  # the file goes
        return replace(run, read_weights=lambda best: kept[best])


@contextmanager
def point_of(run_id: str, tracking_uri: str | None = None) -> Iterator[Path]:
    """The checkpoint that is stored with an MLflow run, on disk while it is needed."""
    from mlflow.exceptions import MlflowException

    client = open_client(resolve_uri(tracking_uri))
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = client.download_artifacts(run_id, f"{PLACE}/{STATE_FILE}", folder)
        except (MlflowException, OSError):
            raise CheckpointError(
                f"MLflow run {run_id} {_why_no_point(client, run_id)}; it must be a trial that "
                "ended with a checkpoint, logged by zotune.callbacks.MLflowCurves"
            ) from None
        yield Path(path)


def _why_no_point(client: MlflowClient, run_id: str) -> str:
    """What of a run is missing, as far as the store knows."""
    from mlflow.exceptions import MlflowException

    try:
        told = client.get_run(run_id).data.tags.get(POINT_TAG)
    except MlflowException:
        return "is not in the store"
    return f"has no point: {told}" if told else "has no point"
