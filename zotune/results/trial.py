"""``Trial``: the result of one trial, independent of where it was read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Any

from zotune.core.aim import Aim
from zotune.core.names import COMPLETE, DIVERGED, FAILED, FINISHED
from zotune.core.ranking import LOSS, rank, remarks

if TYPE_CHECKING:
    import pandas as pd

WHOLE = {*COMPLETE, FINISHED}
"""Statuses of a trial that has spent its budget or ended regularly before."""
COUNTERS = ("spent", "queries", "evaluations", "monitored", "steps", "q", "diverged", "repeated")
VALUES = (
    "loss",
    "loss_std",
    "gap",
    "best_loss",
    "grad_norm2",
    "average_loss",
    "start_loss",
    "seconds",
)
ABOUT_L = ("L", "L_estimated")
"""Further row keys of zotune's trials; other keys are metrics."""


History = dict[str, dict[int, float]]
"""For each metric, its value at each step."""


@dataclass(frozen=True)
class Course:
    """The curve of a trial, and its final losses."""

    curve: pd.DataFrame
    """Means over replicates: ``spent`` and every recorded metric; the last row is the end of the
    trial, if it has ended."""
    losses: tuple[float, ...] | None = None
    """The final loss of each replicate, if recorded; a diverged one counts as
    max(its start loss, its last finite loss)."""
    minimum: float | None = None
    """The minimum of the objective, if known."""
    gamma: float | None = None
    """Its strong convexity, if recorded."""
    diverged: tuple[bool, ...] = ()
    """Whether each replicate has diverged; empty if none has."""


@dataclass(frozen=True)
class Trial:
    """The result of one trial."""

    id: str
    name: str
    status: str
    """exhausted, diverged, stopped early, interrupted, failed, finished or running."""
    config: Mapping[str, Any]
    """The configuration, nested as in a study file."""
    row: Mapping[str, Any]
    """Its final values: spent, charged, monitored, loss and every other metric."""
    load: Callable[[], Course]
    """Reads the curve on demand."""
    error: str = ""
    run_id: str = ""
    """Id of its run in MLflow."""
    aim: Aim = LOSS
    """What decides whether it is better than others."""

    @cached_property
    def course(self) -> Course:
        """Its curve and the final losses of its replicates."""
        return self.load()

    @property
    def has_loss(self) -> bool:
        """Whether it has a loss, or the value that decides instead, and did not fail."""
        return self.status != FAILED and self.row.get(self.aim.metric) is not None

    @property
    def spent(self) -> int:
        """Its spent budget."""
        return int(self.row.get("spent") or 0)

    @property
    def budget(self) -> int | None:
        """Its budget, if its configuration has one."""
        budget = self.config.get("budget")
        return budget if isinstance(budget, int) else None

    @property
    def replicates(self) -> int:
        """Number of independent runs."""
        return int(self.config.get("replicates") or 1)

    @property
    def start_loss(self) -> float | None:
        """The loss before the first step."""
        known = self.row.get("start_loss")
        if known is None and len(self.course.curve) and "loss" in self.course.curve:
            known = self.course.curve["loss"].iloc[0]
        return None if known is None else float(known)

    @property
    def smoothness_estimated(self) -> bool:
        """Whether the step used an estimated L, for which the theory's bounds do not hold."""
        return bool(self.row.get("L_estimated"))

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Its sort key; the best has the lowest."""
        return rank(self.status, self.row.get(self.aim.metric), self.spent, self.aim)

    @property
    def remarks(self) -> list[str]:
        """Remarks to show with the result."""
        estimated = self.row.get("L") if self.smoothness_estimated else None
        return remarks(self.row.get("loss"), self.start_loss, estimated)


def is_metric(name: str) -> bool:
    """Whether a row key is a further metric, not a loss or a counter."""
    return name not in (*COUNTERS, *VALUES, *ABOUT_L)


def curve_of(history: History, aim: Aim = LOSS) -> pd.DataFrame:
    """All points of a trial, NaN where a metric has no value; empty without what decides."""
    import pandas as pd

    if aim.metric not in history:
        return pd.DataFrame({"spent": [], aim.metric: [], "loss_std": []})
    values = {"loss_std": dict.fromkeys(history[aim.metric], 0.0), **history}
    steps = sorted(set().union(*values.values()))
    columns = {key: [curve.get(step, nan) for step in steps] for key, curve in values.items()}
    return pd.DataFrame({"spent": steps, **columns})


def with_end(curve: pd.DataFrame, row: Mapping[str, Any], status: str) -> pd.DataFrame:
    """The curve with the trial's final values added, at or between its points.

    If the trial diverged, later points are removed, because the grid has one after the end.
    """
    import pandas as pd

    end = row.get("spent")
    if end is None or not len(curve):
        return curve
    if end not in set(curve["spent"]):
        last = {key: value for key, value in row.items() if key in curve}
        curve = pd.concat([curve, pd.DataFrame([last])], ignore_index=True)
        curve = curve.sort_values("spent", ignore_index=True)
    return curve[curve["spent"] <= end] if status == DIVERGED else curve
