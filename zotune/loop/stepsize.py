"""The step size of a lane, from its rule, its schedule, and the smoothness L if needed."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from zotune.config import Config
from zotune.core.budget import Budget
from zotune.core.state import LaneState
from zotune.errors import ConfigError
from zotune.estimators import ESTIMATORS
from zotune.iterates import Iterate
from zotune.steps import LEVEL, StepRule, schedule_factor


class StepSize:
    """Step sizes that do not depend on the values of the step.

    Args:
        config: the checked configuration.
        iterate: holds x.
        budget: the budget of the run.
    """

    def __init__(self, config: Config, iterate: Iterate, budget: Budget) -> None:
        self.config, self.iterate, self.budget = config, iterate, budget
        self._rules: dict[int, StepRule] = {}
        self.rule = self.rule_in(iterate.dim)
        self.known_smoothness = config.L or iterate.smoothness
        """L from the configuration or the objective; None if it has to be estimated."""
        self.estimates = self.rule.needs_smoothness and self.known_smoothness is None
        """Whether L is estimated, separately for each replicate."""
        self.scheduled = config.schedule != LEVEL or config.warmup > 0
        if self.estimates and not iterate.takes_points:
            raise ConfigError(
                "step 'theory' needs the smoothness L, which is not estimated for the weights of "
                "a model; give L, or step='constant' with eta"
            )

    def rule_in(self, dim: int) -> StepRule:
        """The step rule for estimates in R^dim."""
        if dim not in self._rules:
            c = self.config
            first = c.block_rule.next(0, None)
            self._rules[dim] = StepRule(
                c.step, c.eta, first, dim, ESTIMATORS[c.estimator], self.iterate.directions
            )
        return self._rules[dim]

    def etas(self, steps: Iterable[int], q: int, dim: int, factor: float = 1.0) -> list[float]:
        """η of x − η U c at each step; in units of 1/L if L is estimated for each replicate.

        ``factor`` is that of the schedule.
        """
        rule, scale = self.rule_in(dim), 1.0
        if rule.needs_smoothness and self.known_smoothness is not None:
            scale = self.known_smoothness
        return [factor * size / scale for size in rule.sizes(steps, q)]

    def eta(self, t: int, q: int, spent: int, dim: int) -> float:
        """η of one step, including the schedule's factor after ``spent``."""
        return self.etas((t,), q, dim, self.schedule(spent, q))[0]

    def schedule(self, spent: int, q: int) -> float:
        """The factor of the schedule for the step size."""
        if not self.scheduled:
            return 1.0
        c, after = self.config, spent + self.budget.cost(q)
        return schedule_factor(c.schedule, c.warmup, spent / c.budget, after / c.budget)

    def closest(self, q: int, dim: int) -> float:
        """The multiple of an estimate in R^dim that is closest to the gradient."""
        return ESTIMATORS[self.config.estimator].closest(self.iterate.directions, q, dim)

    def scaled(self, state: LaneState, c: Tensor) -> Tensor:
        """c, multiplied by 1/L if L is estimated for each replicate."""
        return c * state.inverse_smoothness if self.estimates else c
