"""A lane for the automatic method of ``zotune.descent``: ``update: auto`` with ``step: auto``.

The descent asks for points and is told their values. It is a deterministic function of its start
and these values, so a checkpoint holds the values only. A resumed run replays them without
evaluating anything and continues bit for bit, even if it was interrupted inside a block.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from zotune.config import Config
from zotune.core.budget import Budget, Ledger
from zotune.core.curve import Observation
from zotune.core.grid import budget_grid, crosses
from zotune.core.names import EXHAUSTED, RUNNING
from zotune.core.state import LaneState
from zotune.descent import STARTS, VERSION, Descent
from zotune.errors import ConfigError, ObjectiveError
from zotune.evaluators import SERIAL, Evaluator
from zotune.iterates import Iterate, Program, Request, View
from zotune.loop.gradient_free import gradient_free
from zotune.loop.programs import ProgramLane

VALUES = "auto.values"
"""Key of all values that the descent was told, in order."""
PLANNED = "auto.planned"
"""Key of the budgets that were planned with, one for each descent. If a run continues with a larger
budget, the current descent finishes as planned and another one starts at the best point."""
BEGAN, BEFORE = "auto.start", "auto.before"
"""Keys of the point and the spent budget where the descent began, if the function has changed."""
WRITTEN = "auto.version"
"""Key of the descent's version that produced these values; 1 if it is missing."""


class AutoLane(ProgramLane):
    """One replicate that is minimised by the automatic descent.

    Args:
        config: the checked configuration, of one replicate.
        iterate: its vector.
        evaluator: evaluates its requests.
    """

    estimates = False
    needs_smoothness = False
    takes_points = False
    """The descent cannot be moved to a point of another run."""

    def __init__(self, config: Config, iterate: Iterate, evaluator: Evaluator = SERIAL) -> None:
        super().__init__(config, iterate, evaluator)
        self.budget = Budget(config.budget, config.count, iterate.difference)
        self.grid = budget_grid(config.budget, config.points)
        self._live: tuple[int, int, Descent] | None = None
        """Cache of the current descent: number of values told, index of the descent, descent."""

    def begin(self) -> Program[LaneState]:
        """The state after evaluating the start, which is charged."""
        it = self.iterate
        unknown = torch.full((1,), torch.nan, dtype=it.value_dtype, device=it.device)
        memory = {
            VALUES: torch.zeros(0, dtype=torch.float64),
            PLANNED: torch.tensor([self.config.budget]),
            WRITTEN: torch.tensor([VERSION]),
        }
        state = LaneState.at_start(it.begin(), unknown, memory=memory)
        self._live = None
        for _ in range(STARTS):
            state = yield from self._answered(state)
            if bool(state.loss.isfinite().all()) or self._descent(state).done:
                break
        if not bool(state.loss.isfinite().all()):
            raise ObjectiveError(self.iterate.start_error(state.memory[VALUES][-1:]))
        state = state.but(start_loss=state.loss)
        first = state.but(ledger=Ledger(), steps=0, q=0)
        return state.but(curve=state.curve.append(self._observation(first)))

    def adopt(self, state: LaneState) -> LaneState:
        """Check that the state was produced by the same version of the descent."""
        if VALUES not in state.memory:
            raise ConfigError(
                "update 'auto' cannot continue from a run with another update; start it anew"
            )
        written = int(state.memory[WRITTEN]) if WRITTEN in state.memory else 1
        if written != VERSION:
            raise ConfigError(
                f"update 'auto' cannot continue a run of version {written} of its descent with "
                f"version {VERSION}: finish it with the zotune that began it, or start anew from "
                "its best point"
            )
        planned = state.memory.get(PLANNED, torch.tensor([self.config.budget]))
        if self.config.budget > int(planned[-1]):
            planned = torch.cat([planned, planned.new_tensor([self.config.budget])])
        return state.but(memory={**state.memory, PLANNED: planned})

    def renewing(self, state: LaneState) -> Program[LaneState]:
        """Begin another descent at x with the budget that is left; it evaluates x first."""
        self._live = None
        memory = {
            VALUES: torch.zeros(0, dtype=torch.float64),
            PLANNED: torch.tensor([self.config.budget]),
            WRITTEN: torch.tensor([VERSION]),
            BEGAN: state.x[0].clone(),
            BEFORE: torch.tensor(self.spent(state)),
        }
        state = state.but(memory=memory)
        if self.status(state) != RUNNING:
            return state
        return (yield from self._answered(state))

    def limit_to(self, limit: int) -> None:
        """Does nothing: the descent plans with its whole budget, reserved before it starts."""

    def stepping(self, state: LaneState) -> Program[LaneState]:
        """Evaluate the next batch of points and tell the descent their values."""
        descent = self._descent(state)
        spent, cost = self.spent(state), len(descent.ask())
        if crosses(self.grid, spent, spent + cost) and state.curve.last_spent < spent:
            state = state.but(curve=state.curve.append(self._observation(state)))
        return (yield from self._answered(state))

    def _answered(self, state: LaneState) -> Program[LaneState]:
        """The state after the values that the descent asks for."""
        descent = self._descent(state)
        asked = descent.ask()
        values = (yield self._request(state, asked)).values[0].double()
        number = 0 if self._live is None else self._live[1]
        self._live = None  # an interrupt must not leave a partially updated descent in the cache
        descent.tell(values.cpu().numpy())
        told = torch.cat([state.memory[VALUES], values.cpu()])
        self._live = (len(told), number, descent)
        it, x = self.iterate, self._vector(descent.x)
        loss = torch.tensor([descent.best], dtype=it.value_dtype, device=it.device)
        return state.but(
            x=x,
            loss=loss,
            best_x=x,
            best_loss=loss,
            steps=state.steps + 1,
            q=len(asked),
            ledger=state.ledger.charge(len(asked), len(asked)),
            memory={**state.memory, VALUES: told},
        )

    def _request(self, state: LaneState, asked: np.ndarray) -> Request:
        points = torch.from_numpy(asked).to(self.iterate.dtype)[None].to(self.iterate.device)
        return self.iterate.trial(state, View(state.steps, self.iterate.dim), points)

    def stopping(self, state: LaneState) -> Program[LaneState]:
        """Record the last point of the curve; nothing is evaluated."""
        if state.curve.last_spent == self.spent(state):
            return state
        yield from ()
        return state.but(curve=state.curve.append(self._observation(state)))

    def spent(self, state: LaneState) -> int:
        """Number of evaluations; ``count`` makes no difference here."""
        return state.ledger.evaluations

    def status(self, state: LaneState) -> str:
        """``running``, or ``exhausted`` if the descent asks for no more points."""
        return EXHAUSTED if self._descent(state).done else RUNNING

    @gradient_free
    def report(self, state: LaneState) -> tuple[LaneState, Observation]:
        """An observation of this state; nothing is evaluated."""
        return state, self._observation(state)

    def chosen(self, state: LaneState) -> dict[str, str]:
        """The methods that the descent has chosen, and why."""
        return self._descent(state).chosen

    def _observation(self, state: LaneState) -> Observation:
        return state.observation(self.spent(state), self.iterate.observed(state, None))

    def _descent(self, state: LaneState) -> Descent:
        """The descent at this state: the cached one, or a new one that is told all values again."""
        values, planned = state.memory[VALUES], self._planned(state)
        if self._live is None or self._live[0] != len(values):
            start = state.memory.get(BEGAN, self.iterate.begin()["x"][0])
            self._live = (0, 0, self._new(start, planned[0]))
        at, number, descent = self._live
        while at < len(values) or (descent.done and number + 1 < len(planned)):
            if descent.done:
                number += 1
                descent = self._new(torch.from_numpy(descent.x), planned[number] - at, number)
                continue
            n = len(descent.ask())
            descent.tell(values[at : at + n].numpy())
            at += n
        self._live = (at, number, descent)
        return descent

    def _planned(self, state: LaneState) -> list[int]:
        """The budgets of the descents of this function, each including those before it."""
        known: list[int] = state.memory[PLANNED].tolist() if PLANNED in state.memory else []
        before = int(state.memory.get(BEFORE, 0))
        return [budget - before for budget in known or [self.config.budget]]

    def _new(self, start: Tensor, budget: int, number: int = 0) -> Descent:
        seed = self.config.seed * 1_000_003 + self.config.replicate + 7919 * number
        box, scale = self.config.box(self.iterate.dim), self.config.scale
        return Descent(start.double().cpu().numpy(), budget, box, scale=scale, seed=seed)

    def _vector(self, x: np.ndarray) -> Tensor:
        it = self.iterate
        return torch.from_numpy(np.ascontiguousarray(x)).to(it.device, it.dtype)[None]
