"""What is known of one trial, wherever it was read: the record that all results are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Any

from zotune.core.names import COMPLETE, DIVERGED, FAILED, FINISHED
from zotune.core.ranking import rank, remarks

if TYPE_CHECKING:
    import pandas as pd

WHOLE = {*COMPLETE, FINISHED}
"""Statuses of a trial that had all of its budget, or needed no more of it."""
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
"""What the rows of every trial of ours may hold; anything else is a metric of its own."""


History = dict[str, dict[int, float]]
"""Of each metric, its value at each step."""


@dataclass(frozen=True)
class Course:
    """How a trial came to its end."""

    curve: pd.DataFrame
    """Means over replicates: ``spent`` and every metric that was recorded; the last row is the
    trial's end, where it has one."""
    losses: tuple[float, ...] | None = None
    """The final loss of each replicate, where it was recorded; a diverged one counts as
    max(its start loss, its last finite loss)."""
    minimum: float | None = None
    """The objective's lowest value, where it is known."""
    gamma: float | None = None
    """Its strong convexity, where that was recorded."""


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
    """Its last values: spent, what was charged and monitored, loss and every other metric."""
    load: Callable[[], Course]
    """Reads the curve, when it is wanted."""
    error: str = ""
    run_id: str = ""
    """Of its run in MLflow."""

    @cached_property
    def course(self) -> Course:
        """Its curve and the final losses of its replicates."""
        return self.load()

    @property
    def has_loss(self) -> bool:
        """Whether it came so far that it has one, and did not fail."""
        return self.status != FAILED and self.row.get("loss") is not None

    @property
    def spent(self) -> int:
        """How far it is."""
        return int(self.row.get("spent") or 0)

    @property
    def budget(self) -> int | None:
        """How far it goes, where its configuration says so."""
        budget = self.config.get("budget")
        return budget if isinstance(budget, int) else None

    @property
    def replicates(self) -> int:
        """Independent runs behind its numbers."""
        return int(self.config.get("replicates") or 1)

    @property
    def start_loss(self) -> float | None:
        """The loss before the first step."""
        known = self.row.get("start_loss")
        if known is None and len(self.course.curve):
            known = self.course.curve["loss"].iloc[0]
        return None if known is None else float(known)

    @property
    def smoothness_estimated(self) -> bool:
        """Whether L was estimated, so that the step is not the theory's."""
        return bool(self.row.get("L_estimated"))

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Its place among others: the best has the lowest."""
        return rank(self.status, self.row.get("loss"), self.spent)

    @property
    def remarks(self) -> list[str]:
        """What is to be said wherever it may be called the best."""
        estimated = self.row.get("L") if self.smoothness_estimated else None
        return remarks(self.row.get("loss"), self.start_loss, estimated)


def is_metric(name: str) -> bool:
    """Whether a value is one that a trial reports besides losses and counters."""
    return name not in (*COUNTERS, *VALUES, *ABOUT_L)


def curve_of(history: History) -> pd.DataFrame:
    """All points of a trial, NaN where a metric has none."""
    import pandas as pd

    if "loss" not in history:
        return pd.DataFrame({"spent": [], "loss": [], "loss_std": []})
    values = {"loss_std": dict.fromkeys(history["loss"], 0.0), **history}
    steps = sorted(set().union(*values.values()))
    columns = {key: [curve.get(step, nan) for step in steps] for key, curve in values.items()}
    return pd.DataFrame({"spent": steps, **columns})


def with_end(curve: pd.DataFrame, row: Mapping[str, Any], status: str) -> pd.DataFrame:
    """The curve with the trial's last values, which may lie past or between its points.

    The points of a diverged trial end with it, as the grid has a place after its end.
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
