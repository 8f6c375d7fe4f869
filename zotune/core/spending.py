"""The total budget that a study has spent, over all of its trials.

The account of a launch (``core.account``) has the exact numbers. Records in MLflow have only the
last rows of trials; their sum is the same unless trials continued from each other's checkpoints.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from zotune.core.budget import DIRECTIONS


@dataclass(frozen=True)
class Spending:
    """Sums over all trials and all of their replicates."""

    trials: int
    charged: int
    """Spent budget in the unit of ``count``."""
    evaluations: int
    """Charged calls of the objective; 0 if not known."""
    monitored: int
    """Evaluations that monitored the loss and were not charged."""
    repeated: int
    """What was spent again, from an earlier checkpoint or by workers, and not charged: evaluations
    where the calls of the function are counted, with those that a killed worker had not reported;
    else the reported part from checkpoints, in the unit of ``count``, and workers' evaluations."""
    count: str = ""
    reserved: int = 0
    """Budget that trials may spend before their next report."""
    before: int = 0
    """Budget charged by the launch that this one continues."""
    total: int | None = None
    """Total budget of all trials; None: no limit."""

    @property
    def left(self) -> int | None:
        """Remaining budget; None: no limit."""
        return None if self.total is None else self.total - self.before - self.charged

    def or_of(self, rows: Spending) -> Spending:
        """The same in the unit of these rows; the sum of the rows if no account was kept."""
        return replace(self, count=rows.count) if self.trials else rows

    def as_record(self) -> dict[str, Any]:
        """All fields as plain values."""
        return asdict(self) | {"left": self.left}

    @classmethod
    def told(cls, record: str | None) -> Spending | None:
        """What ``as_record`` gave, as JSON; None for None."""
        if record is None:
            return None
        told = json.loads(record)
        return cls(**{field.name: told[field.name] for field in fields(cls)})

    @classmethod
    def of(cls, trials: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Spending:
        """The sum over trials, each by its configuration and its last row.

        Rows hold means over replicates, rounded down; so do the sums where replicates differ.
        """
        known = list(trials)
        sums = {
            key: sum(
                _whole(config.get("replicates"), 1) * _whole(row.get(key)) for config, row in known
            )
            for key in ("spent", "evaluations", "monitored", "repeated")
        }
        count = next((str(config["count"]) for config, _ in known if config.get("count")), "")
        return cls(len(known), sums.pop("spent"), **sums, count=count)

    def __str__(self) -> str:
        many = "1 trial" if self.trials == 1 else f"{self.trials:,} trials"
        said = f"{self.charged:,} {self.count or 'steps of the budget'} in all, by {many}"
        if self.count == DIRECTIONS and self.evaluations:
            said += f", which took {self.evaluations:,} evaluations"
        if self.before:
            said += f", after {self.before:,} by the launch that it continues"
        besides = []
        if self.monitored:
            looks = "1 evaluation" if self.monitored == 1 else f"{self.monitored:,} evaluations"
            besides.append(f"{looks} to look at the loss")
        if self.repeated:
            unit = self.count or "of the budget"
            besides.append(f"{self.repeated:,} {unit} repeated after failures")
        return said + (f"; not charged: {' and '.join(besides)}" if besides else "")


def _whole(value: Any, unless: int = 0) -> int:
    """An integer, also from text; other trainables may report anything under this name."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return unless


def repeated(reports: Iterable[int]) -> int:
    """The repeated part of the budget, from the spent budgets of a trial's reports in order.

    A trial that is resumed from a checkpoint reports some of its budget a second time. Evaluations
    that a killed worker had not reported cannot be counted.

    >>> repeated([10, 20, 30, 20, 30, 40])
    20
    """
    seen, again = [0], 0
    for spent in reports:
        at = bisect_left(seen, spent)
        if at < len(seen):
            again += spent - seen[max(0, at - 1)]
        if at == len(seen) or seen[at] != spent:
            seen.insert(at, spent)
    return again
