"""The grid of spent budgets at which curves are recorded."""

from __future__ import annotations

from bisect import bisect_left

GRID_POINTS = 320
"""Maximum number of points that MLflow's charts request."""


def budget_grid(budget: int, points: int = GRID_POINTS) -> list[int]:
    """Spent budgets at which curves are recorded, from 0 to the budget; the same for every q."""
    last = min(points - 1, budget)
    return [k * budget // last for k in range(last + 1)]


def next_point(grid: list[int], spent: int) -> int:
    """The first grid point at or after the spent budget."""
    return grid[bisect_left(grid, spent)]


def crosses(grid: list[int], before: int, after: int) -> bool:
    """Whether a grid point lies in [before, after)."""
    at = bisect_left(grid, before)
    return at < len(grid) and grid[at] < after
