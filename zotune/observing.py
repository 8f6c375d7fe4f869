"""Looking at a run without charging it: losses, best points, diagnostics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.budget import Budget
from zotune.curve import Observation
from zotune.probing import Prober
from zotune.state import State


@dataclass(frozen=True)
class Probe:
    """What a step has found out before it moves."""

    values: Tensor
    v: Tensor
    block: Block
    c: Tensor
    """The estimate is U·c."""
    gradient: Tensor | None = None
    """∇f at the state's points, where it came with the values."""


class Observer:
    """Turns states into observations; what it evaluates is counted apart."""

    def __init__(self, prober: Prober, budget: Budget, *, diagnostics: bool) -> None:
        self.objective = prober.objective
        self.sees_loss = prober.difference.knows_center and not self.objective.stochastic
        """Whether a step's first value is the loss itself, so that looking is free."""
        self._prober = prober
        self._budget = budget
        self._diagnostics = diagnostics

    def losses(self, x: Tensor) -> Tensor:
        """The loss that curves show; on the full data where the objective is stochastic."""
        return self.objective.values(x if self.objective.pure else x.clone())

    def record(
        self,
        state: State,
        loss: Tensor | None = None,
        probe: Probe | None = None,
        *,
        ends: bool = False,
    ) -> State:
        """The state with itself on its curve; the loss is looked at unless known already."""
        gradient = None if probe is None else probe.gradient
        state, seen = self.observe(state, loss, gradient, ends=ends)
        if self._diagnostics and probe is not None:
            seen = replace(seen, diagnostics=self._diagnose(state, probe))
        return state.but(curve=state.curve.append(seen))

    def observe(
        self,
        state: State,
        loss: Tensor | None = None,
        gradient: Tensor | None = None,
        *,
        ends: bool = False,
    ) -> tuple[State, Observation]:
        """What is known at the state's points, and the state that remembers the best of them.

        A loss that is not finite is divergence where the run ``ends``. Before, only what a step
        evaluates tells: a run must not depend on where it is looked at.
        """
        average = None
        if loss is None and self.objective.stochastic and not bool(state.diverged.any()):
            state, loss, average, gradient = self._look_at_both(state)
        elif loss is None:
            state, loss = self._look(state)
        if state.lost or not isfinite(loss.sum().item()):
            finite = loss.isfinite() & ~state.diverged
            if ends:
                state = state.but(diverged=~finite, lost=int((~finite).sum()))
            loss = torch.where(finite, loss, state.loss)
            better = finite & (loss < state.best_loss)
        else:
            loss, better = loss.clone(), loss < state.best_loss
        state = state.but(
            loss=loss,
            best_loss=torch.where(better, loss, state.best_loss),
            best_x=_chosen(better, state.x, state.best_x),
        )
        return state, self._observation(state, gradient, average)

    def _look(self, state: State) -> tuple[State, Tensor]:
        """Evaluate the replicates that still run; the others stay where they ended."""
        loss = torch.full_like(state.loss, torch.nan)
        alive = ~state.diverged
        if not bool(alive.any()):
            return state, loss
        loss[alive] = self.losses(state.x[alive])
        return state.but(ledger=state.ledger.monitor()), loss

    def _look_at_both(self, state: State) -> tuple[State, Tensor, Tensor, Tensor | None]:
        """Losses of the points and of their averages, and ∇f, margins shared."""
        points = torch.stack([state.x, self._average(state)], 1)
        values, gradient = self.objective.values_and_gradient(points)
        return state.but(ledger=state.ledger.monitor()), values[:, 0], values[:, 1], gradient

    def _observation(
        self, state: State, gradient: Tensor | None, average_loss: Tensor | None
    ) -> Observation:
        unknown = state.loss.new_zeros(0)
        if gradient is None:
            gradient = self.objective.gradient(state.x)
        loss = state.loss
        if state.lost:
            loss = torch.where(state.diverged, torch.maximum(state.start_loss, loss), loss)
        return Observation(
            queries=state.ledger.queries,
            evaluations=state.ledger.evaluations,
            steps=state.steps,
            spent=self._budget.spent(state.ledger),
            monitored=state.ledger.monitored,
            loss=loss,
            best_loss=state.best_loss,
            diverged=state.diverged,
            grad_norm2=unknown if gradient is None else gradient.square().sum(-1),
            average_loss=self._average_loss(state) if average_loss is None else average_loss,
            diagnostics=unknown.new_full((3 if self._diagnostics else 0,), torch.nan),
        )

    def _average_loss(self, state: State) -> Tensor:
        """The loss of the weighted average of the iterates, where it is kept."""
        if not self.objective.stochastic:
            return state.loss.new_zeros(0)
        return self.losses(self._average(state))

    def _average(self, state: State) -> Tensor:
        """The weighted average of the iterates before this one; at the start, the start."""
        return state.average / state.average_weight if state.average_weight else state.x

    def _diagnose(self, state: State, probe: Probe) -> Tensor:
        """Means over replicates: signal over rounding in v, cosine with ∇f, weights mu misses."""
        values, v = probe.values, probe.v
        rounding = torch.finfo(values.dtype).eps * values.abs().mean(-1) / self._prober.mu
        snr = (v.square().mean(-1).sqrt() / rounding).mean()
        gradient = self.objective.gradient(state.x)
        cosine = torch.full_like(snr, torch.nan)
        if gradient is not None:
            estimate = probe.block.combine(probe.c)
            cosine = torch.cosine_similarity(gradient, estimate, dim=-1).mean()
        unmoved = self._prober.unmoved(state.x, state.steps)
        return torch.stack([snr, cosine.to(snr), unmoved.to(snr)])


def _chosen(better: Tensor, x: Tensor, best_x: Tensor) -> Tensor:
    """Points of the replicates that are better than ever, and the best ones of the others."""
    return x if bool(better.all()) else torch.where(better[:, None], x, best_x)
