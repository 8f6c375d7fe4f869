"""A lane for methods that are generators of points: its state is the values they were told.

A method is a deterministic function of its start and these values, so a checkpoint holds the values
only. A resumed run replays them without evaluating anything and continues bit for bit, even if it
was interrupted inside a block.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zotune.config import Config
from zotune.core.budget import Budget, Ledger
from zotune.core.curve import Observation
from zotune.core.grid import budget_grid, crosses
from zotune.core.names import CONVERGED, EXHAUSTED, RUNNING
from zotune.core.state import LaneState, Told
from zotune.errors import ConfigError, ObjectiveError
from zotune.evaluators import SERIAL, Evaluator
from zotune.iterates import Answer, Iterate, Program, Request, View
from zotune.iterates.parts import together
from zotune.loop.gradient_free import gradient_free
from zotune.loop.programs import ProgramLane
from zotune.methods import METHODS, Choice
from zotune.methods.dialogue import Dialogue
from zotune.methods.start import Points, Start, Vector

STARTS = 3
"""Attempts to evaluate the start before the run fails: a simulator may fail now and then."""


class Live(NamedTuple):
    """A method at work, and where in the run it is."""

    told: int
    """Number of values it was told."""
    part: int
    """Index of its planned budget."""
    dialogue: Dialogue


class Replayed(ProgramLane):
    """One replicate that is minimised by a method that yields points.

    Args:
        config: the checked configuration, of one replicate.
        iterate: its vector.
        evaluator: evaluates its requests.
    """

    estimates = False
    needs_smoothness = False
    takes_points = False
    """A method cannot be moved to a point of another run."""

    def __init__(self, config: Config, iterate: Iterate, evaluator: Evaluator = SERIAL) -> None:
        super().__init__(config, iterate, evaluator)
        self.method = METHODS[config.method]
        self.budget = Budget(config.budget, config.count, iterate.difference)
        self.grid = budget_grid(config.budget, config.points)
        self._bounds = config.box(iterate.dim)
        self.method.require(
            iterate.dim,
            config.budget,
            bounds=self._bounds is not None,
            residuals=iterate.objective.residuals,
        )
        self._live: Live | None = None
        """Cache of the method at the last state."""

    def begin(self) -> Program[LaneState]:
        """The state after evaluating the start, which is charged."""
        it = self.iterate
        unknown = torch.full((1,), torch.nan, dtype=it.value_dtype, device=it.device)
        told = Told(torch.zeros(0, dtype=torch.float64), (self.config.budget,), self.method.stamp)
        state = yield from self._begun(LaneState.at_start(it.begin(), unknown, told=told))
        state = state.but(start_loss=state.loss)
        first = state.but(ledger=Ledger(), steps=0, q=0)
        return state.but(curve=state.curve.append(self._observation(first)))

    def renewing(self, state: LaneState) -> Program[LaneState]:
        """Begin anew at x with the budget that is left, under another function."""
        before = self.spent(state)
        if before >= self.config.budget:
            return state
        values, planned = torch.zeros(0, dtype=torch.float64), (self.config.budget,)
        told = Told(values, planned, self.method.stamp, state.x[0].double().cpu(), before)
        return (yield from self._begun(state.but(told=told)))

    def _begun(self, state: LaneState) -> Program[LaneState]:
        """The state at the start of its method, after evaluating it."""
        told, self._live = _told(state), None
        values: list[float] = []
        outputs: list[Tensor] = []
        while len(values) < min(STARTS, told.planned[0] - told.before):
            asked = self._start(told)[None]
            answer = yield self._request(state, asked)
            values += answer.values[0].tolist()
            outputs += [] if answer.outputs is None else [answer.outputs[0].double().cpu()]
            if np.isfinite(values[-1]):
                break
        if not np.isfinite(values[-1]):
            raise ObjectiveError(self.iterate.start_error(torch.tensor(values[-1:])))
        many = len(values)
        rows = together(outputs) if outputs else None
        told = replace(told, values=torch.tensor(values, dtype=torch.float64), outputs=rows)
        ledger = state.ledger.charge(many, many)
        state = state.but(told=told, steps=state.steps + many, q=1, ledger=ledger)
        return self._with_answer(state)

    def adopt(self, state: LaneState) -> LaneState:
        """Check that the state was produced by the same version of the method."""
        name, told = self.method.name, state.told
        if told is None:
            raise ConfigError(
                f"method {name!r} cannot continue a run of another method; start it anew"
            )
        if told.stamp != self.method.stamp:
            raise ConfigError(
                f"method {name!r} cannot continue a run of its version {told.stamp} with version "
                f"{self.method.stamp}: finish it with the versions that began it, or start anew "
                "from its best point"
            )
        if self.config.budget > told.planned[-1]:
            return state.but(told=replace(told, planned=(*told.planned, self.config.budget)))
        return state

    def limit_to(self, limit: int) -> None:
        """Does nothing: a method plans with its whole budget, reserved before it starts."""

    def stepping(self, state: LaneState) -> Program[LaneState]:
        """Evaluate the next batch of points and tell the method their values."""
        live = self._at(state)
        asked = live.dialogue.ask()
        spent, cost = self.spent(state), len(asked)
        if crosses(self.grid, spent, spent + cost) and state.curve.last_spent < spent:
            state = state.but(curve=state.curve.append(self._observation(state)))
        told = _told(state)
        told = _extended(told, (yield self._request(state, asked)))
        self._live = None  # an interrupt must not leave a method that was told half of them
        _tell(live.dialogue, told, len(told.values) - cost, cost)
        self._live = Live(len(told.values), live.part, live.dialogue)
        return self._with_answer(
            state.but(
                told=told,
                steps=state.steps + 1,
                q=cost,
                ledger=state.ledger.charge(cost, cost),
            )
        )

    def _with_answer(self, state: LaneState) -> LaneState:
        """The state at the answer of its method."""
        it, dialogue = self.iterate, self._at(state).dialogue
        told = _told(state)
        if told.outputs is not None:
            told = replace(
                told,
                residuals=_tensor(dialogue.residuals),
                jacobian=_tensor(dialogue.start.jacobian),
            )
        x = self._vector(dialogue.x)
        loss = torch.tensor([dialogue.best], dtype=it.value_dtype, device=it.device)
        return state.but(x=x, loss=loss, best_x=x, best_loss=loss, told=told)

    def _request(self, state: LaneState, asked: Points) -> Request:
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
        """``running``; ``exhausted``, or ``converged`` if the method ended before its budget."""
        dialogue = self._at(state).dialogue
        if not dialogue.done:
            return RUNNING
        return CONVERGED if dialogue.reason else EXHAUSTED

    @gradient_free
    def report(self, state: LaneState) -> tuple[LaneState, Observation]:
        """An observation of this state; nothing is evaluated."""
        return state, self._observation(state)

    def chosen(self, state: LaneState) -> tuple[Choice, ...]:
        """What the method has chosen, and why; last, why it ended by itself."""
        dialogue = self._at(state).dialogue
        ended = (Choice("end", CONVERGED, dialogue.reason),) if dialogue.reason else ()
        return (*dialogue.start.choices.values(), *ended)

    def _observation(self, state: LaneState) -> Observation:
        return state.observation(self.spent(state), self.iterate.observed(state, None))

    def _at(self, state: LaneState) -> Live:
        """The method at this state: the cached one, or a new one that is told all values again."""
        told = _told(state)
        if self._live is None or self._live.told != len(told.values):
            self._live = self._first(told)
        at, part, dialogue = self._live
        while at < len(told.values) or (dialogue.done and part + 1 < len(told.planned)):
            if dialogue.done:
                part += 1
                left = told.planned[part] - told.before - at
                known = dialogue.x, dialogue.best, dialogue.residuals
                dialogue = self._new(*known, left, left, part)
                continue
            n = len(dialogue.ask())
            _tell(dialogue, told, at, n)
            at += n
        self._live = Live(at, part, dialogue)
        return self._live

    def _first(self, told: Told) -> Live:
        """The method after the value of the start."""
        values = told.values.numpy()
        at = int(np.isfinite(values).argmax())
        budget = told.planned[0] - told.before
        residuals = None if told.outputs is None else told.outputs[at].numpy()
        known = self._start(told), float(values[at]), residuals
        return Live(at + 1, 0, self._new(*known, budget - at - 1, budget))

    def _new(
        self,
        x: Vector,
        value: float,
        residuals: Vector | None,
        left: int,
        budget: int,
        part: int = 0,
    ) -> Dialogue:
        """The method at a start."""
        seed = self.config.seed * 1_000_003 + self.config.replicate + 7919 * part
        start = Start(x, value, left, self._bounds, self.config.scale, seed, budget, residuals)
        return Dialogue(self.method, start)

    def _start(self, told: Told) -> Vector:
        """Where the method begins, inside the bounds."""
        given = self.iterate.begin()["x"][0] if told.start is None else told.start
        x: Vector = given.double().cpu().numpy()
        return x if self._bounds is None else np.clip(x, *self._bounds)

    def _vector(self, x: Vector) -> Tensor:
        it = self.iterate
        return torch.from_numpy(np.ascontiguousarray(x)).to(it.device, it.dtype)[None]


def _told(state: LaneState) -> Told:
    """What the method of a state was told."""
    assert state.told is not None  # every state of this lane has it
    return state.told


def _tensor(array: Vector | None) -> Tensor | None:
    return None if array is None else torch.from_numpy(array.copy())


def _extended(told: Told, answer: Answer) -> Told:
    """What was told, with the answer to one more request."""
    values = torch.cat([told.values, answer.values[0].double().cpu()])
    if told.outputs is None or answer.outputs is None:
        return replace(told, values=values)
    new, m = answer.outputs[0].double().cpu(), told.outputs.shape[1]
    if new.shape[1] > m:
        raise ObjectiveError(
            f"an objective must return the same number of residuals at every point, got {m} at "
            f"the start and {new.shape[1]} later"
        )
    return replace(told, values=values, outputs=together([told.outputs, new]))


def _tell(dialogue: Dialogue, told: Told, at: int, n: int) -> None:
    """Tell a method n values of a log."""
    residuals = None if told.outputs is None else told.outputs[at : at + n].numpy()
    dialogue.tell(told.values[at : at + n].numpy(), residuals)
