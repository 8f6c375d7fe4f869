"""Base class of the lanes: an evaluator runs their programs, step by step up to a goal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from zotune.config import Config
from zotune.core.budget import Budget
from zotune.core.curve import Observation
from zotune.core.names import RUNNING
from zotune.core.state import LaneState
from zotune.evaluators import Evaluator
from zotune.iterates import Iterate, Program
from zotune.loop.gradient_free import gradient_free
from zotune.methods import Choice


class ProgramLane(ABC):
    """A lane whose steps are programs: generators that yield evaluation requests.

    Methods named by a participle (``stepping``, ``stopping``, ``reporting``) are programs;
    ``step``, ``stop`` and ``report`` run them.

    Args:
        config: the checked configuration.
        iterate: holds x.
        evaluator: evaluates its requests.
    """

    budget: Budget
    grid: list[int]
    estimates: bool
    """Whether L is estimated."""
    needs_smoothness: bool
    """Whether the step is divided by L."""
    takes_points: bool
    """Whether it can continue from a point of another run."""

    def __init__(self, config: Config, iterate: Iterate, evaluator: Evaluator) -> None:
        self.config = config
        self.iterate = iterate
        self.evaluator = evaluator
        self.newest: LaneState | None = None
        """The state after the last completed step; used when the objective raises."""
        self.on_step: Callable[[], None] | None = None
        """Called after each step, or after each batch of fused steps."""

    @abstractmethod
    def begin(self) -> Program[LaneState]:
        """The program of ``init``."""

    @abstractmethod
    def renewing(self, state: LaneState) -> Program[LaneState]:
        """The program of ``renew``."""

    @abstractmethod
    def stepping(self, state: LaneState) -> Program[LaneState]:
        """The program of ``step``."""

    @abstractmethod
    def stopping(self, state: LaneState) -> Program[LaneState]:
        """The program of ``stop``."""

    @abstractmethod
    def adopt(self, state: LaneState) -> LaneState:
        """Prepare a state, possibly of another configuration, to continue under this one."""

    @abstractmethod
    def report(self, state: LaneState) -> tuple[LaneState, Observation]:
        """An observation of this state, and the state with its evaluations counted."""

    @abstractmethod
    def limit_to(self, limit: int) -> None:
        """End when ``limit`` is spent instead of at the configuration's budget."""

    @abstractmethod
    def chosen(self, state: LaneState) -> tuple[Choice, ...]:
        """What was chosen automatically during the run, and why."""

    @abstractmethod
    def spent(self, state: LaneState) -> int:
        """Spent budget, in the unit of ``count``."""

    @abstractmethod
    def status(self, state: LaneState) -> str:
        """``running``, ``exhausted``, ``converged`` or ``diverged``."""

    def drawn(self, state: LaneState) -> str:
        """A hash of the next step's first direction, where a resumed run has to draw the same."""
        return ""

    @gradient_free
    def init(self) -> LaneState:
        """The state before the first step, with its loss evaluated."""
        return self.evaluator.run(self.begin)

    @gradient_free
    def renew(self, state: LaneState) -> LaneState:
        """The state at the same points, under another function."""
        return self.evaluator.run(self.renewing, state)

    @gradient_free
    def step(self, state: LaneState) -> LaneState:
        """One step."""
        self.iterate.require_at(state)
        return self.evaluator.run(self.stepping, state)

    @gradient_free
    def advance(self, state: LaneState, until: int | None = None) -> LaneState:
        """Step until ``until`` is spent or the budget covers no further step; record the end."""
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
        """If the run has ended, record the last point of its curve."""
        return state if self.status(state) == RUNNING else (yield from self.stopping(state))

    @gradient_free
    def stop(self, state: LaneState) -> LaneState:
        """End the run before its budget is spent: record the last point of the curve."""
        return self.evaluator.run(self.stopping, state)

    def _walked(self, state: LaneState, goal: int) -> LaneState | None:
        """The state after several fused steps; None if steps cannot be fused."""
        return None
