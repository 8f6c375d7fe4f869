"""Store the point (checkpoint) of a run in MLflow, and load it again."""

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
"""Maximum bytes of a state that is uploaded."""


def upload_point(client: MlflowClient, run_id: str, checkpoint: str | None) -> str:
    """Upload a checkpoint's state to the run; returns a reason if it was not uploaded."""
    if checkpoint is None or not (state := Path(checkpoint, STATE_FILE)).is_file():
        return ""
    if state.stat().st_size > LARGEST:
        return f"too large to be stored here; it is in the checkpoint {state.parent.name}"
    return keep(client, run_id, lambda: client.log_artifact(run_id, str(state), PLACE))


def attach_report(client: MlflowClient, run_id: str, folder: Path) -> str:
    """Upload a report to the launch's summary run; returns a reason if it was not uploaded."""
    if not folder.is_dir():
        return f"there is no {folder.name}"
    return keep(client, run_id, lambda: client.log_artifacts(run_id, str(folder), REPORT))


def keep(client: MlflowClient, run_id: str, store: Callable[[], object]) -> str:
    """Store an artifact; returns an error message if only the artifact storage fails."""
    try:
        store()
    except Exception as error:
        client.get_run(run_id)  # raises if the store does not answer; everything is then retried
        return without_credentials(f"not stored: {type(error).__name__}: {error}")[:500]
    return ""


def run_from_mlflow(run_id: str, tracking_uri: str | None = None) -> Run:
    """Load a run, with its point and curve, from an MLflow run.

    Args:
        run_id: id of a trial's run that ``MLflowCurves`` logged.
        tracking_uri: the store; default: ``MLFLOW_TRACKING_URI``, else ``mlflow.db``.
    """
    from zotune.runs.run import load_run

    with point_of(run_id, tracking_uri) as path:
        run = load_run(path)
        if run.read_weights is None:
            return run
        kept = {best: run.read_weights(best) for best in (False, True)}  # the file is temporary
        return replace(run, read_weights=lambda best: kept[best])


@contextmanager
def point_of(run_id: str, tracking_uri: str | None = None) -> Iterator[Path]:
    """Download the checkpoint of an MLflow run to disk, until the context ends."""
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
    """The reason why a run has no point, as far as the store knows."""
    from mlflow.exceptions import MlflowException

    try:
        told = client.get_run(run_id).data.tags.get(POINT_TAG)
    except MlflowException:
        return "is not in the store"
    return f"has no point: {told}" if told else "has no point"
