"""Select the runs that a page hides: diverged ones and those that end above their start.

A single one would make the axis useless for all others. If there are no others, none is hidden. A
notice says what is hidden.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zotune.core.names import DIVERGED, FINAL, LAUNCH_TAG, STATUS_TAG
from zotune.core.settings import PROBLEM

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

LOSS, FINAL_LOSS = "loss", f"{FINAL}loss"


def runs_above_start(client: MlflowClient, runs: Sequence[Run]) -> list[str]:
    """Ids of runs that diverged or whose final loss is above the start of their launch and problem.

    Trials of one launch on one problem share their start. If all of them end above it, none is
    hidden; neither are runs that have not ended.
    """
    groups: defaultdict[tuple[str, ...], list[Run]] = defaultdict(list)
    for run in runs:
        if FINAL_LOSS in run.data.metrics and LOSS in run.data.metrics:
            groups[_launch_and_problem(run)].append(run)
    hidden: list[str] = []
    for group in groups.values():
        start = _start(client, group[0])
        above = [run.info.run_id for run in group if _is_lost(run, start)]
        hidden += above if len(above) < len(group) else []
    return hidden


def _is_lost(run: Run, start: float) -> bool:
    return run.data.tags.get(STATUS_TAG) == DIVERGED or run.data.metrics[FINAL_LOSS] > start


def _launch_and_problem(run: Run) -> tuple[str, ...]:
    options = sorted(item for item in run.data.params.items() if item[0].startswith(PROBLEM))
    return (run.data.tags.get(LAUNCH_TAG, ""), *(f"{key}={value}" for key, value in options))


def _start(client: MlflowClient, run: Run) -> float:
    """The loss before the first step."""
    history = client.get_metric_history(run.info.run_id, LOSS)
    return float(min(history, key=lambda metric: metric.step).value)


def hiding_notice(hidden: int, runs: int) -> str:
    """The notice about hidden runs; empty if there are none."""
    if not hidden:
        return ""
    ends, them = (
        ("diverged or ends above its start", "it")
        if hidden == 1
        else ("diverged or end above their start", "them")
    )
    return f"{hidden} of {runs} runs {ends}, hidden here; zotune ui --all shows {them}"
