"""Curves against spent budget, on one grid whatever q is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, fields
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


@dataclass(frozen=True)
class Curve:
    """Observations at the steps that the grid refers to, stacked; (observations, replicates)."""

    counters: Tensor
    """queries, evaluations, steps, spent, monitored."""
    loss: Tensor
    best_loss: Tensor
    diverged: Tensor
    grad_norm2: Tensor
    average_loss: Tensor
    diagnostics: Tensor

    @classmethod
    def empty(cls) -> Curve:
        """A curve on which nothing has been recorded."""
        return cls(torch.zeros(0, 5, dtype=torch.int64), *[torch.zeros(0, 0)] * 6)

    def __len__(self) -> int:
        return len(self.counters)

    @property
    def last_spent(self) -> int:
        """Spent budget at the last observation, -1 before the first."""
        return self._spent[-1] if len(self) else -1

    def append(self, seen: Observation) -> Curve:
        """The curve with one more observation."""
        counters = [seen.queries, seen.evaluations, seen.steps, seen.spent, seen.monitored]
        new = {"counters": torch.tensor(counters)}
        new |= {f.name: getattr(seen, f.name).detach().cpu() for f in fields(self)[1:]}
        if not len(self):
            return Curve(**{name: value[None] for name, value in new.items()})
        return Curve(**{k: torch.cat([getattr(self, k), v[None]]) for k, v in new.items()})

    def __getitem__(self, index: int) -> Observation:
        queries, evaluations, steps, spent, monitored = self.counters[index].tolist()
        rest = {f.name: getattr(self, f.name)[index] for f in fields(self)[1:]}
        return Observation(queries, evaluations, steps, spent, monitored, **rest)

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
        spent: list[int] = self.counters[:, 3].tolist()
        return spent
