"""Steps whose size depends on values: trial points are evaluated, charged, and one is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

STEP_MEMORY, CENTER = "step.", "center"
"""In a state's memory: what the step rule remembers, and f(x) where it is known before the step."""


class ProbedStep(NamedTuple):
    """A step before it moves x."""

    view: View
    block: Block
    values: Tensor
    v: Tensor
    c: Tensor
    spent: int
    """Budget that was spent before the step."""


class Searcher:
    """Runs the search of a step rule.

    Args:
        size: of the lane's steps.
        motion: how an estimate moves x.
    """

    def __init__(self, size: StepSize, motion: Motion) -> None:
        self.size, self.motion = size, motion
        self.iterate: Iterate = size.iterate
        self.entry = size.rule.entry
        self.tries = self.entry.most_trials > 0
        """Whether steps are tried before they are taken."""
        self._prefix = f"{STEP_MEMORY}{size.rule.name}."
        self._straight = motion.plain and size.iterate.box is None
        """Whether a step of any size follows the estimate, and its slope is known beforehand."""

    def adopted(self, memory: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """What of a state's memory this rule uses, and what it begins with."""
        if self.tries and CENTER in memory:
            yield CENTER, memory[CENTER]
        for name, first in self.entry.memory.items():
            key = self._prefix + name
            yield key, memory.get(key, torch.tensor([first], dtype=torch.float64))

    def moved(self, state: LaneState, step: ProbedStep) -> Program[LaneState]:
        """The state after x has moved as far as the rule says, or has stayed."""
        view, block, c = step.view, step.block, step.c
        known = self._memory(state)
        memory = dict(known)
        factor = self.size.schedule(step.spent, block.q)
        center, slope = self._center(state, step.values), [0.0]
        if self.iterate.is_stuck(state, block, c):
            return self._knowing(state, center)
        search = self._search(state, step, center, memory, slope)
        state, eta, value = yield from self._tried(state, step, search, factor, slope)
        apart = self.iterate.tests_bounds(state, view)  # tells nothing of usual steps
        state = state if apart else self._with_memory(state, memory, known)
        if eta is None and apart:
            return self._knowing(state, center)
        if eta is None:
            return self._knowing(self.iterate.rejected(state, view), center)
        state = self.iterate.move(state, view, block, c, eta * factor, self.motion)
        return state if value is None else self._knowing(state, value)

    def _search(
        self,
        state: LaneState,
        step: ProbedStep,
        center: Tensor,
        memory: dict[str, float],
        slope: list[float],
    ) -> Search:
        """The rule's own search, told what is known of this line."""
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
        """The state that has paid for the trials, the size that was taken, and f there if known."""
        budget, tried = self.size.budget, dict[float, Tensor]()
        try:
            eta = next(search)
            while True:
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
                eta = search.send(float(value) if bool(value.isfinite()) else inf)
        except StopIteration as end:
            chosen = end.value
        return state, chosen, None if chosen is None else tried.get(chosen)

    def _center(self, state: LaneState, values: Tensor) -> Tensor:
        """f(x) as the step sees it; of central differences on a mini-batch, their mean."""
        if self.iterate.difference.knows_center:
            return values[:, 0]
        return values.mean(-1) if self.iterate.stochastic else state.loss

    def _knowing(self, state: LaneState, value: Tensor) -> LaneState:
        """The state that knows f at its x, where the next step sees the same f."""
        if self.iterate.stochastic or not self.tries:
            return state
        better = value < state.best_loss
        return state.but(
            loss=value,
            best_loss=torch.where(better, value, state.best_loss),
            best_x=torch.where(better[:, None], state.x, state.best_x),
            memory={**state.memory, CENTER: value},
        )

    def _memory(self, state: LaneState) -> dict[str, float]:
        """What the step rule remembers, as numbers."""
        return {name: float(state.memory[self._prefix + name]) for name in self.entry.memory}

    def _with_memory(
        self, state: LaneState, memory: Mapping[str, float], known: Mapping[str, float]
    ) -> LaneState:
        """The state that remembers the numbers of ``memory`` that the rule has changed."""
        changed = {
            self._prefix + name: torch.tensor([value], dtype=torch.float64)
            for name, value in memory.items()
            if value is not known[name]
        }
        return state.but(memory={**state.memory, **changed})
