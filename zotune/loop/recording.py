"""Observe the points of a lane: their losses, the best of them, and the points of the curve."""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.config import Config
from zotune.core.budget import Budget
from zotune.core.curve import Observation
from zotune.core.state import LaneState
from zotune.iterates import Answer, Iterate, Program
from zotune.iterates.vectors import finite
from zotune.loop.divergence import counted


class Recorder:
    """Evaluates the loss on request, and stores observations in the state.

    Args:
        config: the checked configuration.
        iterate: holds x.
        budget: the budget of the run.
    """

    def __init__(self, config: Config, iterate: Iterate, budget: Budget) -> None:
        self.config, self.iterate, self.budget = config, iterate, budget
        self.remembers_best = not (iterate.pure or iterate.stochastic)
        """Whether every charged value may give the best point. False for mini-batches, whose values
        are not losses, and for pure (cheap) objectives, where only recorded points are compared."""

    def observed(
        self,
        state: LaneState,
        loss: Tensor | None = None,
        gradient: Tensor | None = None,
        *,
        look: bool,
        ends: bool = False,
    ) -> Program[tuple[LaneState, Observation]]:
        """An observation at x, and the state with the best point updated.

        If ``look``, the loss is evaluated unless it is known already. A loss that is not finite
        counts as divergence only if the run ``ends``. Before the end, only the values of steps
        decide, because a run must not depend on when it is observed.
        """
        if loss is None and look:
            state, loss, found = yield from self.looking(state)
            gradient = found if gradient is None else gradient
        if loss is not None:
            state = self._with_loss(state, loss, ends=ends)
        return state, self.observation(state, gradient)

    def looking(self, state: LaneState) -> Program[tuple[LaneState, Tensor, Tensor | None]]:
        """The state after looking at the loss, the loss, and ∇f if it was computed with it.

        A look that is charged is an evaluation like others, and the next step need not repeat it.
        """
        request = self.iterate.look(state)
        if request is None:
            return state, torch.full_like(state.loss, torch.nan), None
        answer = yield request
        if not request.charged:
            return self.looked(state, answer), answer.values, answer.gradient
        loss = answer.values[:, 0]
        state = counted(state, answer.values)
        return state.but(ledger=state.ledger.charge(0, 1), center=loss), loss, None

    def looked(self, state: LaneState, answer: Answer) -> LaneState:
        """The state with an uncharged evaluation counted."""
        return state.but(
            ledger=state.ledger.monitor(self.iterate.evaluations_to_look),
            looked=self.budget.spent(state.ledger),
            metrics={**state.metrics, **answer.metrics},
        )

    def _with_loss(self, state: LaneState, loss: Tensor, *, ends: bool) -> LaneState:
        """The state with this loss, and with the best point updated."""
        if state.lost or not finite(loss):
            known = loss.isfinite() & ~state.diverged
            if ends:
                state = state.but(diverged=~known, lost=int((~known).sum()))
            loss = torch.where(known, loss, state.loss)
            better = known & (loss < state.best_loss)
        else:
            loss, better = loss.clone(), loss < state.best_loss
        return state.but(
            loss=loss,
            best_loss=torch.where(better, loss, state.best_loss),
            best_x=self.iterate.best_at(state, better),
        )

    def observation(self, state: LaneState, gradient: Tensor | None = None) -> Observation:
        """An observation of this state, without evaluations."""
        loss = state.loss
        if state.lost:
            loss = torch.where(state.diverged, torch.maximum(state.start_loss, loss), loss)
        tensors = {"loss": loss, **self.iterate.observed(state, gradient)}
        if self.config.diagnostics:
            unknown = loss.new_full((1,), torch.nan)
            tensors = dict.fromkeys(("snr", "cosine", "unmoved"), unknown) | tensors
        return state.observation(self.budget.spent(state.ledger), tensors)

    def recorded(self, state: LaneState, seen: Observation) -> LaneState:
        """The state with one more point on its curve."""
        return self.iterate.recorded(state).but(curve=state.curve.append(seen))

    def diagnosed(
        self,
        state: LaneState,
        seen: Observation,
        block: Block,
        values: Tensor,
        v: Tensor,
        c: Tensor,
        *,
        ended: bool,
    ) -> Observation:
        """The observation with diagnostics, means over replicates.

        These are the ratio of v to its rounding error, the cosine of the estimate with ∇f, and the
        share of coordinates where x + mu·u rounds to x.
        """
        if not self.config.diagnostics or ended:
            return seen
        rounding = torch.finfo(values.dtype).eps * values.abs().mean(-1) / self.iterate.mu
        snr = (v.square().mean(-1).sqrt() / rounding).mean()
        gradient = self.iterate.gradient(state)
        cosine = torch.full_like(snr, torch.nan)
        if gradient is not None:
            estimate = block.combine(c)
            cosine = torch.cosine_similarity(gradient, estimate, dim=-1).mean()
        unmoved = self.iterate.unmoved(state)
        told = {"snr": snr, "cosine": cosine.to(snr), "unmoved": unmoved.to(snr)}
        tensors = {**seen.tensors, **{name: value.view(1) for name, value in told.items()}}
        return Observation(**{**seen.__dict__, "tensors": tensors})

    def with_best(self, state: LaneState, block: Block, values: Tensor) -> LaneState:
        """The state with the best point among all evaluated ones."""
        lowest, at = values.masked_fill(~values.isfinite(), torch.inf).min(-1)
        better = (lowest < state.best_loss) & ~state.diverged
        if not bool(better.any()):
            return state
        points = self.iterate.points_at(state, block, at)
        return state.but(
            best_loss=torch.where(better, lowest, state.best_loss),
            best_x=torch.where(better[:, None], points, state.best_x),
        )
