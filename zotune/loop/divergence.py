"""Which replicates a step has lost."""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.core.state import LaneState
from zotune.iterates import Iterate, View
from zotune.iterates.vectors import finite, some_are_equal

FAILED_VALUES = "failed"
"""In a state's memory: how many values were not finite."""


def counted(state: LaneState, values: Tensor) -> LaneState:
    """The state that has counted failed evaluations of replicates that run."""
    if finite(values):
        return state
    failed = (~values[~state.diverged].isfinite()).sum().cpu().double().reshape(1)
    before = state.memory.get(FAILED_VALUES, torch.zeros(1, dtype=torch.float64))
    return state.but(memory={**state.memory, FAILED_VALUES: before + failed})


def without_lost(
    iterate: Iterate,
    state: LaneState,
    view: View,
    block: Block,
    values: Tensor,
    *,
    all_finite: bool,
) -> tuple[LaneState, Tensor | None]:
    """The state without replicates that this step has lost, and which of all are lost in it.

    A replicate is lost where a value is not finite, or where it has run uphill until x + mu·u = x.
    That is decided by the points, not by equal values: a plateau is not divergence, and noise hides
    nothing. The values are f(x) itself then.
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
