"""What a lane sees of its points: losses, the best of them, and the points of its curve."""

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


class Recorder:
    """Looks at the loss where that is asked for, and keeps what was seen.

    Args:
        config: the checked configuration.
        iterate: where x lives.
        budget: of the run.
    """

    def __init__(self, config: Config, iterate: Iterate, budget: Budget) -> None:
        self.config, self.iterate, self.budget = config, iterate, budget
        self.remembers_best = not (iterate.pure or iterate.stochastic)
        """Whether every charged value may be of the best point. Values of a mini-batch are not
        losses; of pure objectives, which are cheap, only recorded points are compared."""

    def observed(
        self,
        state: LaneState,
        loss: Tensor | None = None,
        gradient: Tensor | None = None,
        *,
        look: bool,
        ends: bool = False,
    ) -> Program[tuple[LaneState, Observation]]:
        """What is known at x, and the state that remembers the best of it.

        The loss is looked at, if told, unless it is known already. A loss that is not finite is
        divergence where the run ``ends``. Before, only what a step evaluates tells: a run must not
        depend on where it is looked at.
        """
        if loss is None and look:
            request = self.iterate.look(state)
            if request is None:
                loss = torch.full_like(state.loss, torch.nan)
            else:
                answer = yield request
                state, loss = self.looked(state, answer), answer.values
                gradient = answer.gradient if gradient is None else gradient
        if loss is not None:
            state = self._with_loss(state, loss, ends=ends)
        return state, self.observation(state, gradient)

    def looked(self, state: LaneState, answer: Answer) -> LaneState:
        """The state that has counted a look."""
        return state.but(
            ledger=state.ledger.monitor(),
            looked=self.budget.spent(state.ledger),
            metrics={**state.metrics, **answer.metrics},
        )

    def _with_loss(self, state: LaneState, loss: Tensor, *, ends: bool) -> LaneState:
        """The state that has seen this loss."""
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
        """What is known of the state now."""
        loss = state.loss
        if state.lost:
            loss = torch.where(state.diverged, torch.maximum(state.start_loss, loss), loss)
        tensors = {"loss": loss, **self.iterate.observed(state, gradient)}
        if self.config.diagnostics:
            unknown = loss.new_full((1,), torch.nan)
            tensors = dict.fromkeys(("snr", "cosine", "unmoved"), unknown) | tensors
        return state.observation(self.budget.spent(state.ledger), tensors)

    def recorded(self, state: LaneState, seen: Observation) -> LaneState:
        """The state with one more point of its curve."""
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
        """Means over replicates: signal over rounding in v, cosine with ∇f, weights mu misses."""
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
        """The state that remembers the best point of all whose values were charged."""
        lowest, at = values.masked_fill(~values.isfinite(), torch.inf).min(-1)
        better = (lowest < state.best_loss) & ~state.diverged
        if not bool(better.any()):
            return state
        points = self.iterate.points_at(state, block, at)
        return state.but(
            best_loss=torch.where(better, lowest, state.best_loss),
            best_x=torch.where(better[:, None], points, state.best_x),
        )
