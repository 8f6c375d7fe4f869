"""Checks of a lane before its first step: estimate the smoothness L, and detect noisy values."""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.config import Config
from zotune.core.budget import EVALUATIONS
from zotune.core.state import LaneState
from zotune.iterates import Iterate, Program, View
from zotune.loop.curvature import estimate_curvature, probes_for, probing_cost
from zotune.loop.noise import LOOKS, alike, refuse_noise
from zotune.loop.recording import Recorder

PROBING = -1
"""Step index of the random directions that probe curvature before the first step."""


class Checks:
    """Estimates L and detects noise.

    Args:
        config: the checked configuration.
        iterate: holds x.
        recorder: the lane's recorder.
    """

    def __init__(self, config: Config, iterate: Iterate, recorder: Recorder) -> None:
        self.config, self.iterate, self.recorder = config, iterate, recorder
        self.budget = recorder.budget

    def smoothness(self, state: LaneState) -> Program[LaneState]:
        """The state with L estimated at its points; the evaluations are charged."""
        probes = probes_for(self.config.block_rule.most, self.config.budget)
        probes = min(probes, self.iterate.dim)
        ledger = state.ledger.charge(*probing_cost(probes))
        needed = self.budget.spent(ledger) + self.budget.cost(1)
        if self.iterate.charges_looks and self.config.count == EVALUATIONS:
            needed += 1 - self.iterate.difference.per_step  # f(x) is known; the last one is not
        self.budget.require(needed, "an estimate of L and one step")
        if state.curve.last_spent < self.budget.spent(state.ledger):
            state, seen = yield from self.recorder.observed(state, state.loss, look=True)
            state = self.recorder.recorded(state, seen)
        view = View(PROBING, self.iterate.dim)
        block, mu = self.iterate.block(view, probes), self.config.mu
        found = yield from estimate_curvature(
            lambda points: self.iterate.trial(state, view, points),
            state.x,
            block,
            mu,
            box=self.iterate.box,
        )
        state = state.but(ledger=ledger)
        again = torch.equal(found.around, state.x)
        if not state.steps and not self.iterate.stochastic and again:
            state = self._with_repeats(state, 1)
            changes = {"its curvature": found.bend} | self._differences(found.slope)
            state = yield from self._look_again(state, found.center, changes)
        inverse = (1 / found.smoothness[:, None]).to(state.x.dtype)
        return state.but(inverse_smoothness=inverse)

    def noise(self, state: LaneState, once: Tensor, v: Tensor) -> Program[LaneState]:
        """Raise an error if noise dominates v: compare the loss with ``once``, another value there.

        If every evaluation is charged, the start is evaluated a second time for this, once.
        """
        if self.iterate.stochastic:
            return state
        changes = self._differences(v.square().mean(-1).sqrt())
        if not self.iterate.charges_looks:
            return (yield from self._look_again(state, once, changes))
        if not changes or not self.budget.buys_value(state.ledger, kept=1):
            return state
        state, again = yield from self._repeated(state)
        return (yield from self._look_again(state, again, changes))

    def _differences(self, slope: Tensor) -> dict[str, Tensor]:
        """How much f changes over mu, by what it is used for; empty if the user gave mu."""
        mu = self.iterate.mu
        return {} if self.config.mu else {f"differences over mu={mu:g}": slope * mu}

    def _look_again(
        self, state: LaneState, other: Tensor, changes: dict[str, Tensor]
    ) -> Program[LaneState]:
        """Evaluate again at the same points if two losses there differ; raise if f is too noisy."""
        if not changes or alike(state.loss, other):
            return state
        looks, charged = [state.loss, other], self.iterate.charges_looks
        while len(looks) < LOOKS + 2:
            if charged and not self.budget.buys_value(state.ledger, kept=1):
                break
            state, again = yield from self._repeated(state)
            looks.append(again)
        for what, size in changes.items():
            refuse_noise(torch.stack(looks, dim=-1), size, what)
        return state

    def _repeated(self, state: LaneState) -> Program[tuple[LaneState, Tensor]]:
        """The state and the loss at x, which is known already; the state keeps the first value."""
        request = self.iterate.look(state)
        assert request is not None  # all replicates run
        values = (yield request).values
        if not request.charged:
            return state.but(ledger=state.ledger.monitor()), values
        return self._with_repeats(state.but(ledger=state.ledger.charge(0, 1)), 1), values[:, 0]

    def _with_repeats(self, state: LaneState, more: int) -> LaneState:
        """The state that counts charged evaluations at a known point."""
        if not self.iterate.charges_looks:
            return state
        return state.but(repeats=state.repeats + more)
