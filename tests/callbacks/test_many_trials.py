"""A store of many trials keeps fewer points of each curve, on one grid, and every end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.callbacks.conftest import history, runs
from zotune.callbacks import MLflowCurves, sync
from zotune.callbacks.spool import Spool
from zotune.core.grid import budget_grid
from zotune.errors import ConfigError

BUDGET = 2000
PARAMS = {"budget": str(BUDGET), "points": "320", "estimator": "align", "q": "1"}


def written(folder: Path, store: str, kept: int, *, last: int, ends: bool) -> Path:
    """The spool of a trial of zotune's with points on the fine grid, up to a step."""
    about = {"launch_id": "one", "experiment": "many", "tracking_uri": store, "time": 1000}
    spool, trial = Spool(folder / "curves", about | {"points": kept}), {"trial": "t1"}
    known = {"losses": [1.0], "minimum": None, "gamma": None}
    steps = [step for step in budget_grid(BUDGET) if step <= last]
    spool.append({"kind": "started", "name": "one", "params": PARAMS, "time": 2000, **trial})
    for at in range(0, len(steps), 7):
        points = [[step, {"loss": 1.0, "steps": float(step)}] for step in steps[at : at + 7]]
        spool.append({"kind": "points", "points": points, **known, **trial})
    ended = {"status": "FINISHED", "step": last, "final": {"loss": 1.0}, "tags": {}, "time": 3000}
    spool.append(*([{"kind": "ended", **ended, **trial}] if ends else []))
    spool.append({"kind": "closed", "time": 3000})
    spool.close()
    return folder


def steps_of(store: str, key: str) -> list[int]:
    (run,) = runs(store, "many").values()
    return [step for step, _ in history(store, run, key)]


def test_a_curve_keeps_the_points_that_were_asked_for_and_no_counters(
    tmp_path: Path, store: str
) -> None:
    (done,) = sync(written(tmp_path, store, 41, last=BUDGET, ends=True), seconds=0)
    assert (done.is_complete, done.points) == (True, 41)
    fine = budget_grid(BUDGET)
    coarse = [max(s for s in fine if s <= step) for step in budget_grid(BUDGET, 41)]
    assert steps_of(store, "loss") == coarse
    assert steps_of(store, "steps") == []
    assert sync(tmp_path, seconds=0)[0].points == 0


def test_an_interrupted_trial_keeps_its_last_point_so_that_what_it_spent_is_known(
    tmp_path: Path, store: str
) -> None:
    last = budget_grid(BUDGET)[100]
    sync(written(tmp_path, store, 41, last=last, ends=False), seconds=0)
    assert steps_of(store, "loss")[-1] == last
    assert len(steps_of(store, "loss")) == 14


def test_few_trials_keep_all_points(tmp_path: Path, store: str) -> None:
    assert sync(written(tmp_path, store, 320, last=BUDGET, ends=True), seconds=0)[0].points == 320
    assert len(steps_of(store, "steps")) == 320


@pytest.mark.parametrize("points", [1, 321, 2.5, True])
def test_the_number_of_points_is_checked(points: Any) -> None:
    with pytest.raises(ConfigError, match=r"points must be a number from 2 to 320, got"):
        MLflowCurves(points=points)
