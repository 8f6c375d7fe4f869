"""What a script has set by MLflow's own functions: its active run, or ``set_experiment``.

Nothing is imported: if the script has not imported MLflow, it has set nothing.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Any

from zotune.callbacks.stores import resolve_uri, without_credentials
from zotune.errors import ZotuneError

EXPERIMENT_ID = "MLFLOW_EXPERIMENT_ID"


@dataclass(frozen=True)
class ScriptSettings:
    """An experiment and a parent run that the script has set, and why one is not used."""

    experiment: str | None = None
    parent: str | None = None
    """Id of the active run."""
    problems: list[str] = field(default_factory=list)


def script_settings(uri: str, experiment: str | None = None) -> ScriptSettings:
    """What applies to a store and, if given, an experiment of it.

    Args:
        uri: full address of the store of the curves.
        experiment: the experiment of the curves, if it has been named.
    """
    mlflow, fluent = (sys.modules.get(name) for name in ("mlflow", "mlflow.tracking.fluent"))
    if mlflow is None or fluent is None:
        said = f"{EXPERIMENT_ID} is not read; name the experiment with MLFLOW_EXPERIMENT_NAME"
        return ScriptSettings(problems=[said] if os.environ.get(EXPERIMENT_ID) else [])
    run: Any = mlflow.active_run()
    place = fluent._active_experiment_id if run is None else run.info.experiment_id
    if place is None:
        return ScriptSettings()
    parent = None if run is None else str(run.info.run_id)
    what = "the experiment of set_experiment" if parent is None else f"the active run {parent}"
    theirs = mlflow.get_tracking_uri()
    if not _is_same(theirs, uri):
        said = f"{what} is in another store, {without_credentials(theirs)}, and not used"
        return ScriptSettings(problems=[said])
    try:
        name = str(mlflow.get_experiment(place).name)
    except Exception as error:  # the store does not answer, which the deliverer reports
        said = f"{what} is not used: {type(error).__name__}: {error}"
        return ScriptSettings(problems=[without_credentials(said)])
    if parent is not None and experiment not in (None, name):
        said = f"{what} is in experiment {name!r}, not in {experiment!r}; it is not the parent"
        return ScriptSettings(problems=[said])
    return ScriptSettings(name, parent)


def _is_same(theirs: str, uri: str) -> bool:
    try:
        return without_credentials(resolve_uri(theirs)) == without_credentials(uri)
    except ZotuneError:  # of a kind that we do not use
        return False
