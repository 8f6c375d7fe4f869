"""What evolves in a descent on weights, except the weights: these are in the module."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import astuple, dataclass, field, fields, replace
from math import inf, isnan, nan
from typing import Any

from zotune.budget import Ledger
from zotune.curve import EXHAUSTED, RUNNING


@dataclass(frozen=True)
class Point:
    """What is known after one step; NaN where nothing is."""

    queries: int
    evaluations: int
    monitored: int
    steps: int
    spent: int
    loss: float
    """On the held-out data, when they were last looked at."""
    best_loss: float
    accuracy: float
    train_loss: float
    """Mean loss of the mini-batches since the point before."""
    unmoved: float
    """Share of weights that neither mu·u nor the update changed, when last looked at."""
    diverged: int

    def row(self, status: str) -> dict[str, Any]:
        """The point as a result row, with the keys that rows of other problems have."""
        return {
            "queries": self.queries,
            "evaluations": self.evaluations,
            "monitored": self.monitored,
            "steps": self.steps,
            "spent": self.spent,
            "loss": self.loss,
            "loss_std": 0.0,
            "best_loss": self.best_loss,
            "gap": None,
            "grad_norm2": None,
            "average_loss": None,
            "diverged": self.diverged,
            "status": status,
            "accuracy": _known(self.accuracy),
            "train_loss": _known(self.train_loss),
            "unmoved": _known(self.unmoved),
        }

    @classmethod
    def of(cls, numbers: list[float]) -> Point:
        """The point whose ``astuple`` was kept as floats."""
        named = zip(fields(cls), numbers, strict=True)
        values: dict[str, Any] = {f.name: int(x) if f.type == "int" else x for f, x in named}
        return cls(**values)

    def numbers(self) -> list[float]:
        """All fields as floats."""
        return [float(value) for value in astuple(self)]


def _known(value: float) -> float | None:
    return None if isnan(value) else value


@dataclass(frozen=True)
class WeightsState:
    """All that evolves beside the weights and the scalar log."""

    steps: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    loss: float = nan
    """The last finite validation loss."""
    start_loss: float = nan
    best_loss: float = inf
    """The lowest validation loss that was looked at; its weights are not kept."""
    accuracy: float = nan
    unmoved: float = nan
    diverged: bool = False
    validated: int = -1
    """Spent budget when the held-out data were last looked at."""
    batches: int = 0
    """Mini-batches since the last point, and the sum of their losses."""
    batch_losses: float = 0.0
    curve: tuple[Point, ...] = ()

    @property
    def last_spent(self) -> int:
        """Spent budget at the last point, -1 before the first."""
        return self.curve[-1].spent if self.curve else -1

    def point(self, spent: int) -> Point:
        """What is known now."""
        return Point(
            queries=self.ledger.queries,
            evaluations=self.ledger.evaluations,
            monitored=self.ledger.monitored,
            steps=self.steps,
            spent=spent,
            loss=max(self.start_loss, self.loss) if self.diverged else self.loss,
            best_loss=self.best_loss,
            accuracy=self.accuracy,
            train_loss=self._train_loss(),
            unmoved=self.unmoved,
            diverged=int(self.diverged),
        )

    def recorded(self, spent: int) -> WeightsState:
        """The state with itself on its curve, in place of what was there at the same spent."""
        before = self.curve[:-1] if self.last_spent == spent else self.curve
        point = self.point(spent)
        return replace(self, curve=(*before, point), batches=0, batch_losses=0.0)

    def _train_loss(self) -> float:
        if self.batches:
            return self.batch_losses / self.batches
        return self.curve[-1].train_loss if self.curve else nan


def curve_rows(
    curve: tuple[Point, ...], grid: list[int], *, spent: int, status: str, after: int = -1
) -> list[dict[str, Any]]:
    """Result rows on the grid past ``after``, each with the last point at or before it.

    As in ``zotune.curve``: a point that was reached but not left is final only at the end.
    """
    if status == RUNNING:
        end = spent - 1
    else:
        end = grid[-1] if status == EXHAUSTED else grid[bisect_left(grid, spent)]
    at = [point.spent for point in curve]
    rows = []
    for place in grid[bisect_right(grid, after) : bisect_right(grid, end)]:
        seen = curve[bisect_right(at, place) - 1]
        rows.append(seen.row(status if seen.spent == spent else RUNNING) | {"spent": place})
    return rows
