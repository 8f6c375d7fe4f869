"""Decide which replicates have diverged at a step."""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.core.state import LaneState
from zotune.iterates import Iterate, View
from zotune.iterates.vectors import finite, some_are_equal


def counted(state: LaneState, values: Tensor) -> LaneState:
    """The state with the failed evaluations of running replicates added to its count."""
    if finite(values):
        return state
    return state.but(failed=state.failed + int((~values[~state.diverged].isfinite()).sum()))


def without_lost(
    iterate: Iterate,
    state: LaneState,
    view: View,
    block: Block,
    values: Tensor,
    *,
    all_finite: bool,
) -> tuple[LaneState, Tensor | None]:
    """Mark the replicates that diverge at this step; return the state and a mask of them.

    A replicate diverges if a value is not finite, or if its loss is above that of the start and x
    is so large that x + mu·u rounds to x. The second case compares points, not values: a plateau
    has equal values without divergence, and noise makes values differ. All values of the replicate
    are then f(x).
    """
    failed = None if all_finite else ~values.isfinite().all(-1)
    loss = state.loss
    if not iterate.pure or some_are_equal(values):
        here = values.select(1, 0)
        uphill = here > state.start_loss
        if bool(uphill.any()):
            stuck = uphill & iterate.unmoved_by(state, view, block)
            if bool(stuck.any()):
                if not iterate.stochastic:
                    loss = torch.where(stuck & ~state.diverged, here, loss)
                failed = stuck if failed is None else failed | stuck
    if failed is None:
        return state, None
    diverged = state.diverged | failed
    return state.but(diverged=diverged, lost=int(diverged.sum()), loss=loss), failed
