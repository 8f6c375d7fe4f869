"""Curves against spent budget, on one grid whatever q is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

RUNNING, EXHAUSTED, DIVERGED = "running", "exhausted", "diverged"


@dataclass(frozen=True)
class Observation:
    """What is known of all replicates after one step; (replicates,) or empty where unknown."""

    queries: int
    evaluations: int
    steps: int
    spent: int
    monitored: int
    loss: Tensor
    best_loss: Tensor
    diverged: Tensor
    grad_norm2: Tensor
    average_loss: Tensor
    diagnostics: Tensor
    """snr, cosine and unmoved, (3,)."""

    def row(self, status: str, minimum: float | None) -> dict[str, Any]:
        """The observation as a result row; means over replicates, None where not known."""
        loss = _mean(self.loss)
        row: dict[str, Any] = {
            "queries": self.queries,
            "evaluations": self.evaluations,
            "monitored": self.monitored,
            "steps": self.steps,
            "spent": self.spent,
            "loss": loss,
            "loss_std": _spread(self.loss),
            "best_loss": _mean(self.best_loss),
            "gap": None if minimum is None or loss is None else loss - minimum,
            "grad_norm2": _mean(self.grad_norm2),
            "average_loss": _mean(self.average_loss),
            "diverged": int(self.diverged.sum()),
            "status": status,
        }
        for name, value in zip(
            ("snr", "cosine", "unmoved"), self.diagnostics.tolist(), strict=False
        ):
            row[name] = value if value == value else None
        return row


def _mean(values: Tensor) -> float | None:
    """The mean, without overflow where single values are near the largest number."""
    return None if values.numel() == 0 else float((values / len(values)).sum())


def _spread(values: Tensor) -> float:
    """The standard deviation over replicates, 0 for one."""
    largest = float(values.abs().max())
    if len(values) == 1 or largest == 0:
        return 0.0
    return float((values / largest).std()) * largest


def above(loss: float, start: float) -> str:
    """A remark on a run that has ended above its start; nothing on others."""
    return f" above its start's {start:.6g}" if loss > start else ""


COUNTERS = ("queries", "evaluations", "steps", "spent", "monitored")
TENSORS = ("loss", "best_loss", "diverged", "grad_norm2", "average_loss", "diagnostics")


@dataclass(frozen=True)
class Curve:
    """Observations at the steps that the grid refers to, in their order."""

    seen: tuple[Observation, ...] = ()

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Curve:
        """The curve that ``stacked`` was made of."""
        each = zip(*(tensors[name] for name in TENSORS), strict=True)
        rows = zip(tensors["counters"].tolist(), each, strict=True)
        return cls(tuple(Observation(*counters, *values) for counters, values in rows))

    def stacked(self) -> dict[str, Tensor]:
        """Counters, and every tensor of all observations below each other, for a file."""
        if not self.seen:
            return {"counters": torch.zeros(0, 5, dtype=torch.int64)} | {
                name: torch.zeros(0, 0) for name in TENSORS
            }
        counters = [[getattr(one, name) for name in COUNTERS] for one in self.seen]
        return {"counters": torch.tensor(counters)} | {
            name: torch.stack([getattr(one, name).cpu() for one in self.seen]) for name in TENSORS
        }

    def __len__(self) -> int:
        return len(self.seen)

    @property
    def last_spent(self) -> int:
        """Spent budget at the last observation, -1 before the first."""
        return self.seen[-1].spent if self.seen else -1

    def append(self, seen: Observation) -> Curve:
        """The curve with one more observation."""
        return Curve((*self.seen, seen))

    def __getitem__(self, index: int) -> Observation:
        return self.seen[index]

    def rows(
        self, grid: list[int], *, spent: int, status: str, minimum: float | None, after: int = -1
    ) -> list[dict[str, Any]]:
        """Result rows on the grid past ``after``, each with the last observation at or before it.

        A point that the run has reached but not left is final only when the run has ended. The
        end is the next point of the grid, or the budget if only a rest could not be spent.
        """
        if status == RUNNING:
            end = spent - 1
        else:
            end = grid[-1] if status == EXHAUSTED else grid[bisect_left(grid, spent)]
        rows = []
        for point in grid[bisect_right(grid, after) : bisect_right(grid, end)]:
            seen = self[bisect_right(self._spent, point) - 1]
            row = seen.row(status if seen.spent == spent else RUNNING, minimum)
            rows.append(row | {"spent": point})
        return rows

    @cached_property
    def _spent(self) -> list[int]:
        return [one.spent for one in self.seen]
