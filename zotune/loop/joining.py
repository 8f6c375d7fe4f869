"""Going on from a better point than one's own, as the winner of a race does."""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.core.state import LaneState, State
from zotune.loop import Loop
from zotune.loop.auto import AutoLane
from zotune.loop.lane import Lane


def joined(loop: Loop, state: State, other: State) -> State:
    """The state with the best points of another run, for replicates that are above them.

    What was spent, the step index and the curve stay its own; vectors and numbers that update and
    step rule keep belong to the way to the old point, and begin anew. A run that chooses everything
    by itself, and one over the weights of a model, stay where they are.

    Args:
        loop: of the run that goes on.
        state: where it is.
        other: of a run with as many replicates on the same problem.
    """
    lanes, first = [], 0
    for lane, one in zip(loop.lanes, state.lanes, strict=True):
        rows = slice(first, first + len(one.loss))
        first = rows.stop
        if lane.takes_points:
            one = _lane(lane, one, other.best_x[rows], other.best_loss[rows])
        lanes.append(one)
    return State(tuple(lanes))


def _lane(lane: Lane | AutoLane, state: LaneState, points: Tensor, losses: Tensor) -> LaneState:
    """The state of a lane at the points that are better than its own."""
    losses, points = losses.to(state.loss), points.to(state.x)
    better = (losses < state.loss) & ~state.diverged
    if not bool(better.any()):
        return state
    lowest = losses < state.best_loss
    return lane.adopt(
        state.but(
            x=torch.where(better[:, None], points, state.x),
            loss=torch.where(better, losses, state.loss),
            best_x=torch.where(lowest[:, None], points, state.best_x),
            best_loss=torch.where(lowest, losses, state.best_loss),
            slots={},
            memory={},
        )
    )
