"""Line searches: trial points are evaluated and charged, and one of them is accepted."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.core.state import LaneState
from zotune.iterates import Iterate, Program, View
from zotune.loop.divergence import counted
from zotune.loop.stepsize import StepSize
from zotune.steps import Line, Search
from zotune.updates.motion import Motion


class ProbedStep(NamedTuple):
    """A step whose values are known, before x is moved."""

    view: View
    block: Block
    values: Tensor
    v: Tensor
    c: Tensor
    spent: int
    """Budget spent before the step."""


class Searcher:
    """Runs the search of a step rule.

    Args:
        size: the step sizes of the lane.
        motion: how an estimate moves x.
    """

    def __init__(self, size: StepSize, motion: Motion) -> None:
        self.size, self.motion = size, motion
        self.iterate: Iterate = size.iterate
        self.entry = size.rule.entry
        self.tries = self.entry.most_trials > 0
        """Whether the step rule evaluates trial points."""
        self._straight = motion.plain and size.iterate.box is None
        """Whether steps of all sizes are along the estimate, so that the slope is known."""

    def adopted(self, state: LaneState) -> LaneState:
        """The state with what this rule remembers, or its initial numbers."""
        if not (self.tries or self.iterate.charges_looks):
            state = state.but(center=None)
        if state.rule == self.size.rule.name:
            return state
        return state.but(rule=self.size.rule.name, numbers=dict(self.entry.memory))

    def moved(self, state: LaneState, step: ProbedStep) -> Program[LaneState]:
        """The state after the search; x stays if no trial was accepted."""
        view, block, c = step.view, step.block, step.c
        memory = dict(state.numbers)
        factor = self.size.schedule(step.spent, block.q)
        center, slope = self._center(state, step.values), [0.0]
        if self.iterate.is_stuck(state, block, c):
            return self._with_center(state, center)
        search = self._search(state, step, center, memory, slope)
        state, eta, value = yield from self._tried(state, step, search, factor, slope)
        apart = self.iterate.tests_bounds(state, view)  # not representative of other steps
        state = state if apart else state.but(numbers=memory)
        if eta is None and apart:
            return self._with_center(state, center)
        if eta is None:
            return self._with_center(self.iterate.rejected(state, view), center)
        state = self.iterate.move(state, view, block, c, eta * factor, self.motion)
        return state if value is None else self._with_center(state, value)

    def left(self, state: LaneState, step: ProbedStep) -> LaneState:
        """The state without a search: x stays, as there is no direction to search along."""
        center = self._center(state, step.values)
        return self._with_center(self.iterate.rejected(state, step.view), center)

    def _search(
        self,
        state: LaneState,
        step: ProbedStep,
        center: Tensor,
        memory: dict[str, float],
        slope: list[float],
    ) -> Search:
        """Start the search of the rule with the facts about this line."""
        plain, eta = float((step.v * step.c).sum()), self.size.config.eta
        line = Line(
            eta=self.entry.default_eta if eta is None else eta,
            t=step.view.step,
            q=step.block.q,
            dim=step.view.dim,
            value=float(center),
            rounding=8 * torch.finfo(step.values.dtype).eps * abs(float(center)),
            v=step.v[0],
            first=lambda: self.iterate.short_step(
                state, step.view, step.block, step.c, self.motion
            ),
            natural=self.motion.update.natural,
            memory=memory,
            slope=lambda: plain if self._straight else slope[0],
            sees_batches=self.iterate.stochastic and not self.size.scheduled,
        )
        assert self.entry.search is not None  # for the type checker
        return self.entry.search(line)

    def _tried(
        self, state: LaneState, step: ProbedStep, search: Search, factor: float, slope: list[float]
    ) -> Program[tuple[LaneState, float | None, Tensor | None]]:
        """The state with the trials charged, the accepted size, and f there if it is known."""
        budget, tried = self.size.budget, dict[float, Tensor]()
        try:
            eta = next(search)
            while True:
                if eta in tried:  # as after a step that was shortened, and then is to be longer
                    eta = search.send(_finite_or_inf(tried[eta]))
                    continue
                if budget.limit - budget.spent(state.ledger) < 1:
                    eta = search.send(inf)
                    continue
                trial = self.iterate.attempt(
                    state, step.view, step.block, step.c, eta * factor, self.motion
                )
                value = (yield trial.request).values[:, 0]
                if not self._straight:
                    slope[0] = self.size.closest(step.block.q, step.view.dim) * trial.decrease()
                    slope[0] /= eta
                tried[eta] = value
                state = counted(state, value).but(ledger=state.ledger.charge(1, 1))
                eta = search.send(_finite_or_inf(value))
        except StopIteration as end:
            chosen = end.value
        return state, chosen, None if chosen is None else tried.get(chosen)

    def _center(self, state: LaneState, values: Tensor) -> Tensor:
        """f(x) on the step's mini-batch; for central differences the mean of their values."""
        if self.iterate.difference.knows_center:
            return values[:, 0]
        unknown = self.iterate.charges_looks and state.center is None
        return values.mean(-1) if self.iterate.stochastic or unknown else state.loss

    def _with_center(self, state: LaneState, value: Tensor) -> LaneState:
        """The state that knows f(x), unless the next step has another mini-batch."""
        if self.iterate.stochastic or not self.tries:
            return state
        better = value < state.best_loss
        return state.but(
            loss=value,
            best_loss=torch.where(better, value, state.best_loss),
            best_x=torch.where(better[:, None], state.x, state.best_x),
            center=value,
        )


def _finite_or_inf(value: Tensor) -> float:
    """The value of a trial; inf for one that has failed."""
    return float(value) if bool(value.isfinite()) else inf
