"""Find the launches of a study in a store, and the runs of a launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from zotune.core.names import LAUNCH_TAG

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from mlflow.tracking import MlflowClient

PAGE = 1000
"""Maximum number of runs per request that MLflow allows."""


def launch_starts(client: MlflowClient, experiment: str) -> dict[str, int]:
    """The start time of each launch of an experiment, newest first.

    For a database, this is a single query; a server must be asked for all runs.
    """
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = client._tracking_client.store
    if isinstance(store, SqlAlchemyStore):
        found = _from_database(store, experiment)
    else:
        found = {}
        for run in found_runs(client, [experiment]):
            if (launch := run.data.tags.get(LAUNCH_TAG)) is not None:
                start = int(run.info.start_time)
                found[launch] = min(start, found.get(launch, start))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _from_database(store: SqlAlchemyStore, experiment: str) -> dict[str, int]:
    from mlflow.store.tracking.dbmodels.models import SqlRun, SqlTag
    from sqlalchemy import func, select

    run, tag = _any(SqlRun), _any(SqlTag)
    wanted = (
        select(tag.value, func.min(run.start_time))
        .join(run, run.run_uuid == tag.run_uuid)
        .where(
            tag.key == LAUNCH_TAG,
            run.experiment_id == int(experiment),
            run.lifecycle_stage == "active",
        )
        .group_by(tag.value)
    )
    with store.ManagedSessionMaker() as session:
        return {str(launch): int(start) for launch, start in session.execute(wanted)}


def _any(model: Any) -> Any:
    """A table of MLflow's, whose columns have no types."""
    return model


def runs_of_launch(client: MlflowClient, experiment: str, launch: str) -> list[Run]:
    """All runs of a launch, its summary among them."""
    if "'" in launch:  # would end the string in the search; no id contains it
        return []
    return list(found_runs(client, [experiment], f"tags.`{LAUNCH_TAG}` = '{launch}'"))


def found_runs(client: MlflowClient, experiments: Sequence[str], wanted: str = "") -> Iterator[Run]:
    """Runs that a search finds, page by page."""
    token: str | None = ""
    while token is not None:
        page = client.search_runs(
            list(experiments), wanted, max_results=PAGE, page_token=token or None
        )
        yield from page
        token = page.token or None
