"""What all lanes have in common: their programs are run by an evaluator, step by step to a goal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from zotune.config import Config
from zotune.core.names import RUNNING
from zotune.core.state import LaneState
from zotune.evaluators import Evaluator
from zotune.iterates import Iterate, Program
from zotune.loop.gradient_free import gradient_free


class ProgramLane(ABC):
    """A lane whose steps are programs, which ask for evaluations.

    Args:
        config: the checked configuration.
        iterate: where x lives.
        evaluator: who answers its requests.
    """

    def __init__(self, config: Config, iterate: Iterate, evaluator: Evaluator) -> None:
        self.config = config
        self.iterate = iterate
        self.evaluator = evaluator
        self.newest: LaneState | None = None
        """The state after the last whole step, for a caller whose objective has raised."""
        self.on_step: Callable[[], None] | None = None
        """Called after each step, or after several that were taken as one."""

    @abstractmethod
    def begin(self) -> Program[LaneState]:
        """The program of ``init``."""

    @abstractmethod
    def stepping(self, state: LaneState) -> Program[LaneState]:
        """The program of ``step``."""

    @abstractmethod
    def stopping(self, state: LaneState) -> Program[LaneState]:
        """The program of ``stop``."""

    @abstractmethod
    def spent(self, state: LaneState) -> int:
        """Spent budget, in the unit of ``count``."""

    @abstractmethod
    def status(self, state: LaneState) -> str:
        """running, exhausted or diverged."""

    @gradient_free
    def init(self) -> LaneState:
        """The state before the first step: its loss is known."""
        return self.evaluator.run(self.begin)

    @gradient_free
    def step(self, state: LaneState) -> LaneState:
        """One step."""
        self.iterate.require_at(state)
        return self.evaluator.run(self.stepping, state)

    @gradient_free
    def advance(self, state: LaneState, until: int | None = None) -> LaneState:
        """Step until so much is spent, or until nothing more can be; the end is recorded."""
        goal = self.config.budget if until is None else until
        self.iterate.require_at(state)
        self.newest = state
        while self.spent(state) < goal and self.status(state) == RUNNING:
            walked = self._walked(state, goal)
            state = self.evaluator.run(self.stepping, state) if walked is None else walked
            self.newest = state
            if self.on_step is not None:
                self.on_step()
        return self.evaluator.run(self.ending, state)

    def ending(self, state: LaneState) -> Program[LaneState]:
        """The state with its end on its curve, where it has ended."""
        return state if self.status(state) == RUNNING else (yield from self.stopping(state))

    @gradient_free
    def stop(self, state: LaneState) -> LaneState:
        """The state with its end on its curve, where something else than its budget ends it."""
        return self.evaluator.run(self.stopping, state)

    def _walked(self, state: LaneState, goal: int) -> LaneState | None:
        """The state after several steps at once, where there is a fast way for them."""
        return None
