"""Move a run to the points of another run where these are better, as after a race of methods."""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.core.state import LaneState, State
from zotune.loop import Loop
from zotune.loop.programs import ProgramLane


def joined(loop: Loop, state: State, other: State) -> State:
    """Move each replicate with a higher loss to the best point of the other run.

    The spent budget, the step index and the curve are kept. The vectors and numbers that the update
    and the step rule remember belong to the old path and are reset. Runs of the automatic descent
    and runs on a model's weights are returned unchanged.

    Args:
        loop: the loop of the run that continues.
        state: its state.
        other: the state of another run with as many replicates on the same problem.
    """
    lanes, first = [], 0
    for lane, one in zip(loop.lanes, state.lanes, strict=True):
        rows = slice(first, first + len(one.loss))
        first = rows.stop
        if lane.takes_points:
            one = _lane(lane, one, other.best_x[rows], other.best_loss[rows])
        lanes.append(one)
    return State(tuple(lanes))


def _lane(lane: ProgramLane, state: LaneState, points: Tensor, losses: Tensor) -> LaneState:
    """The state of a lane, moved to those points that are better than its own."""
    losses, points = losses.to(state.loss), points.to(state.x)
    better = (losses < state.loss) & ~state.diverged
    if not bool(better.any()):
        return state
    lowest = losses < state.best_loss
    knows = lane.iterate.charges_looks and bool(better.all())
    return lane.adopt(
        state.without_memory().but(
            x=torch.where(better[:, None], points, state.x),
            loss=torch.where(better, losses, state.loss),
            best_x=torch.where(lowest[:, None], points, state.best_x),
            best_loss=torch.where(lowest, losses, state.best_loss),
            center=losses if knows else None,  # a known value need not be bought again
        )
    )
