"""Observations of a run, and its curve against spent budget, on the same grid for all q.

An observation has counters and a dictionary of tensors with one number per replicate. Result rows,
curves, files and reports are made from it, so a metric that an iterate adds appears in all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from zotune.core.clock import SECONDS, seconds
from zotune.core.names import RAN_TO_END, RUNNING, STOPPED

COUNTERS = ("queries", "evaluations", "monitored", "steps", "q", "spent")
LOSS, BEST_LOSS, ENDED = "loss", "best_loss", "diverged"
KNOWN = ("loss", "best_loss", "diverged", "grad_norm2", "average_loss")
"""Tensors that have a key in every row."""


@dataclass(frozen=True)
class Observation:
    """Counters and metrics of all replicates after one step."""

    queries: int
    evaluations: int
    monitored: int
    steps: int
    q: int
    """Size of the last block, 0 before the first."""
    spent: int
    tensors: Mapping[str, Tensor]
    """Metrics by name, (replicates,) each; NaN if not known."""

    def row(self, status: str, minimum: float | None) -> dict[str, Any]:
        """The observation as a result row: means over replicates, None if not known."""
        loss = _mean(self.tensors[LOSS])
        row: dict[str, Any] = {name: getattr(self, name) for name in COUNTERS}
        row |= {
            "loss": loss,
            "loss_std": _spread(self.tensors[LOSS]),
            "best_loss": _mean(self.tensors[BEST_LOSS]),
            "gap": None if minimum is None or loss is None else loss - minimum,
            "grad_norm2": _mean(self.tensors.get("grad_norm2")),
            "average_loss": _mean(self.tensors.get("average_loss")),
            "diverged": int(self.tensors[ENDED].sum()),
            "status": status,
        }
        extras = sorted(self.tensors.keys() - set(KNOWN))
        row |= {name: _mean(self.tensors[name]) for name in extras}
        if SECONDS in extras:  # the time of the last replicate, not the mean
            row[SECONDS] = float(self.tensors[SECONDS].max())
        return row


def _mean(values: Tensor | None) -> float | None:
    """The mean, without overflow if values are close to the largest number."""
    if values is None or values.numel() == 0:
        return None
    mean = float((values / len(values)).sum())
    return mean if mean == mean else None


def _spread(values: Tensor) -> float:
    """The standard deviation over replicates, 0 for one."""
    largest = float(values.abs().max())
    if len(values) == 1 or largest == 0:
        return 0.0
    return float((values / largest).std()) * largest


def above(loss: float, start: float) -> str:
    """A remark if a run has ended above its start; else empty."""
    return f" above its start's {start:.6g}" if loss > start else ""


@dataclass(frozen=True)
class Curve:
    """Observations in order, at the steps that the grid needs."""

    seen: tuple[Observation, ...] = ()

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Curve:
        """The inverse of ``stacked``."""
        metrics = [name for name in tensors if name != "counters"]
        counters = tensors["counters"].tolist()
        return cls(
            tuple(
                Observation(
                    **dict(zip(COUNTERS, counts, strict=True)),
                    tensors={name: tensors[name][at] for name in metrics},
                )
                for at, counts in enumerate(counters)
            )
        )

    def stacked(self) -> dict[str, Tensor]:
        """Counters and metrics of all observations, stacked for a file."""
        counters = [[getattr(one, name) for name in COUNTERS] for one in self.seen]
        metrics = self._names()
        shaped = torch.tensor(counters, dtype=torch.int64).view(len(counters), len(COUNTERS))
        return {"counters": shaped} | {
            name: torch.stack([one.tensors[name].cpu() for one in self.seen]) for name in metrics
        }

    def _names(self) -> list[str]:
        """Metrics that all observations have; seconds may be missing in early ones."""
        names = self.seen[0].tensors if self.seen else {}
        return [name for name in names if all(name in one.tensors for one in self.seen)]

    def __len__(self) -> int:
        return len(self.seen)

    @property
    def last_spent(self) -> int:
        """Spent budget at the last observation, -1 before the first."""
        return self.seen[-1].spent if self.seen else -1

    def append(self, seen: Observation) -> Curve:
        """The curve with one more observation, which replaces one at the same spent budget."""
        before = self.seen[:-1] if self.last_spent == seen.spent else self.seen
        return Curve((*before, _with_seconds(seen)))

    def __getitem__(self, index: int) -> Observation:
        return self.seen[index]

    def at(self, spent: int) -> Observation:
        """The last observation at or before a spent budget."""
        return self[max(0, bisect_right(self._spent, spent) - 1)]

    @cached_property
    def _spent(self) -> list[int]:
        return [one.spent for one in self.seen]


def _with_seconds(seen: Observation) -> Observation:
    """The observation with the wall time of the run, if it is measured."""
    now = seconds()
    if now is None:
        return seen
    each = torch.full((len(seen.tensors[LOSS]),), now, dtype=torch.float64)
    return replace(seen, tensors={**seen.tensors, SECONDS: each})


def together(observations: Sequence[Observation]) -> Observation:
    """Merge the observations of several lanes; counters are means, rounded down."""
    if len(observations) == 1:
        return observations[0]
    n = len(observations)
    counters = {key: sum(getattr(one, key) for one in observations) // n for key in COUNTERS}
    names = [n for n in observations[0].tensors if all(n in one.tensors for one in observations)]
    tensors = {name: torch.cat([one.tensors[name] for one in observations]) for name in names}
    return Observation(**counters, tensors=tensors)


def rows_on_grid(
    curves: Sequence[Curve],
    grid: Sequence[int],
    *,
    spent: int,
    status: str,
    minimum: float | None,
    after: int = -1,
) -> list[dict[str, Any]]:
    """Result rows at grid points after ``after``, each with the last observation up to that point.

    The row at the current spent budget is final only if the run has ended. The end is at the next
    point of the grid, or at the budget if only a remainder could not be spent.

    Args:
        curves: the curves of all lanes.
        grid: spent budgets.
        spent: the spent budget of the run, or of its slowest lane.
        status: the status of the run.
        minimum: the minimum of the objective, if it is known.
        after: rows up to this budget are left out.
    """
    if status == RUNNING:
        end = spent - 1
    else:
        end = grid[-1] if status in RAN_TO_END else grid[bisect_left(grid, spent)]
    rows = []
    for point in grid[bisect_right(grid, after) : bisect_right(grid, end)]:
        seen = together([curve.at(point) for curve in curves])
        ended = seen.spent >= spent or (status == STOPPED and point == end)
        row = seen.row(status if ended else RUNNING, minimum)
        rows.append(row | {"spent": point})
    return rows
