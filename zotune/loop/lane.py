"""A lane: replicates that take their steps together, on vectors or on a model's weights.

The lane handles budget, step size, clipping, divergence, records and status. The iterate decides
which points are evaluated and how x is moved. Nothing here depends on Ray or MLflow.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.blocksizes import Last
from zotune.config import Config
from zotune.core.budget import DIRECTIONS, EVALUATIONS, Budget
from zotune.core.curve import Observation
from zotune.core.grid import budget_grid, crosses, next_point
from zotune.core.names import DIVERGED, EXHAUSTED, RUNNING
from zotune.core.state import LaneState
from zotune.errors import ObjectiveError
from zotune.estimators import ESTIMATORS, require_possible
from zotune.evaluators import SERIAL, Evaluator
from zotune.iterates import Answer, Iterate, Program, View, motion_for
from zotune.iterates.vectors import finite
from zotune.loop.checks import Checks
from zotune.loop.divergence import counted, without_lost
from zotune.loop.drawing import Address
from zotune.loop.flatness import MuSearch
from zotune.loop.gradient_free import gradient_free
from zotune.loop.programs import ProgramLane
from zotune.loop.recording import Recorder
from zotune.loop.searching import ProbedStep, Searcher
from zotune.loop.stepsize import StepSize
from zotune.methods import Choice

LONGEST_WALK = 64
"""Maximum number of fused steps between two checks for finite values."""


class Lane(ProgramLane):
    """The steps of one configuration on one iterate.

    Args:
        config: the checked configuration.
        iterate: holds x.
        evaluator: evaluates its requests.
    """

    def __init__(self, config: Config, iterate: Iterate, evaluator: Evaluator = SERIAL) -> None:
        super().__init__(config, iterate, evaluator)
        self.estimator = ESTIMATORS[config.estimator]
        self.motion = motion_for(config, iterate.directions, iterate.dim)
        self.blocks = config.block_rule
        require_possible(self.estimator, iterate.directions, self.blocks.most, iterate.dim)
        self._address = Address(config, iterate)
        self._address.require_alone()
        self.budget = Budget(config.budget, config.count, iterate.difference)
        self.size = StepSize(config, iterate, self.budget)
        self.rule = self.size.rule
        self.searcher = Searcher(self.size, self.motion)
        self.searches = self.searcher.tries
        self._require_a_step()
        self.grid = budget_grid(config.budget, config.points)
        self.estimates, self.needs_smoothness = self.size.estimates, self.rule.needs_smoothness
        self.takes_points = iterate.takes_points
        self.recorder = Recorder(config, iterate, self.budget)
        self.checks = Checks(config, iterate, self.recorder)
        self.flatness = MuSearch(config, iterate)

    def chosen(self, state: LaneState) -> tuple[Choice, ...]:
        """The mu that was found for a flat function, and how often a known point was evaluated."""
        why = "evaluations at the start, to see whether the function is noisy"
        repeats = (Choice("repeats", str(state.repeats), why),) if state.repeats else ()
        return (*self.flatness.said(state), *repeats)

    def drawn(self, state: LaneState) -> str:
        """A hash of the next step's first direction; empty for zotune's own kinds."""
        return self._address.digest(state.steps)

    def limit_to(self, limit: int) -> None:
        """End when ``limit`` is spent instead of at the configuration's budget."""
        self.budget = self.size.budget = self.checks.budget = replace(self.budget, limit=limit)

    def begin(self) -> Program[LaneState]:
        """The initial state. Evaluates the loss at the start, and estimates L if it is needed."""
        it = self.iterate
        unknown = torch.full((it.replicates,), torch.nan, dtype=it.value_dtype, device=it.device)
        slots = it.new_slots(self.motion.slots)
        state = LaneState.at_start(it.begin(), unknown, slots=slots)
        state, loss, _ = yield from self.recorder.looking(state)
        if not bool(loss.isfinite().all()):
            raise ObjectiveError(self.iterate.start_error(loss))
        state = state.but(loss=loss, start_loss=loss, best_loss=loss)
        state = state.but(best_x=self.iterate.best_at(state, loss.isfinite()))
        if it.charges_looks or not it.looks_on_grid:  # the curve begins at nothing spent
            seen = self.recorder.observation(state.but(ledger=replace(state.ledger, evaluations=0)))
            state = self.recorder.recorded(state, seen)
        return (yield from self.adopting(state))

    def renewing(self, state: LaneState) -> Program[LaneState]:
        """The state at the same points under another function, whose loss there is evaluated.

        The vectors and numbers that the update and the step rule remember, and L unless it is
        known, belong to the other function and are reset.
        """
        buys = self.budget.buys_value(state.ledger) or not self.iterate.charges_looks
        if state.lost == self.iterate.replicates or not buys:
            return state
        state, loss, _ = yield from self.recorder.looking(state.without_memory())
        known = loss.isfinite() & ~state.diverged
        loss = torch.where(known, loss, state.loss)
        state = state.but(
            loss=loss,
            best_loss=torch.where(known, loss, torch.inf),
            best_x=self.iterate.best_at(state, known),
            inverse_smoothness=torch.full_like(state.inverse_smoothness, torch.nan),
        )
        return (yield from self.adopting(state))

    @gradient_free
    def adopt(self, state: LaneState) -> LaneState:
        """Prepare a state, possibly of another configuration, to continue under this one."""
        return self.evaluator.run(self.adopting, state)

    def adopting(self, state: LaneState) -> Program[LaneState]:
        """The program of ``adopt``.

        The memory of another update, step or block-size rule is reset. L is taken from the
        configuration, else from the objective, else from the state; else it is estimated, which is
        charged.
        """
        if state.slots.keys() != set(self.iterate.new_slots(self.motion.slots)):
            state = state.but(slots=self.iterate.new_slots(self.motion.slots))
        if not self.blocks.sees_values:
            state = state.but(next_q=None)
        state = self.flatness.adopted(self.searcher.adopted(state))
        if self.size.known_smoothness is not None:
            inverse = torch.full_like(state.inverse_smoothness, 1 / self.size.known_smoothness)
            return state.but(inverse_smoothness=inverse)
        unknown = bool(state.inverse_smoothness.isnan().any())
        if unknown and self.rule.needs_smoothness:
            return (yield from self.checks.smoothness(state))
        return state

    def stepping(self, state: LaneState) -> Program[LaneState]:
        """One step of zeroth-order descent: v along U, c from v and U, x moved along U c."""
        self.flatness.use(state)
        q = self._block_size(state)
        view = self.iterate.view(state.steps)
        block = self.iterate.along_bounds(state, view, self.iterate.block(view, q))
        spent, center = self.spent(state), state.center
        most = self._cost(q) + max(0, self.rule.entry.most_trials - 1)
        records = crosses(self.grid, spent, spent + most)
        if not self.iterate.looks_on_grid:  # this point of the curve is recorded already
            records = records and state.curve.last_spent < spent
        answer = yield self.iterate.probes(
            state, view, block, records=records, center=center is None
        )
        if center is not None:
            values = answer.values
            if self.iterate.difference.knows_center:
                values = torch.cat([center[:, None].to(values), values], dim=1)
            answer = Answer(values, answer.gradient)
        return (yield from self._taken(state, view, block, answer, records=records))

    def _block_size(self, state: LaneState) -> int:
        """The size of the next block by the rule and the budget that is left; 0 if none fits."""
        q = self.blocks.next(state.steps, None) if state.next_q is None else state.next_q
        known = state.center is not None
        if not self.searches:
            return self.budget.block(state.ledger, q, kept=self._kept, known=known)
        left = self.budget.limit - self.spent(state)
        while q and self._cost(q, known=known) > left:
            q = min(q - 1, left)
        return q

    @property
    def _kept(self) -> int:
        """What steps leave of the budget for the value of the last point, where that is charged."""
        charged = self.iterate.charges_looks and self.config.count == EVALUATIONS
        return int(charged and not self.searches)

    def _require_a_step(self) -> None:
        """Raise an error if the budget does not cover the first step."""
        needed = self._cost(self.blocks.next(0, None)) + self._kept
        if self.iterate.charges_looks and self.config.count == EVALUATIONS:
            needed += 1 - self.iterate.difference.per_step  # f at the start, if no step asks for it
        also = " and the values before and after it" if self.iterate.charges_looks else ""
        what = f"one step ({self.config.difference} with q={self.config.q}){also}"
        self.budget.require(needed, what)

    def _cost(self, q: int, *, known: bool = False) -> int:
        """The least that a step costs; f(x) is not charged again if it is ``known``.

        A trial point costs one, whether directions or evaluations are counted.
        """
        if not self.searches:
            return self.budget.cost(q)
        difference = self.iterate.difference
        if self.config.count == DIRECTIONS:
            return q + 1
        return difference.evaluations(q) - (difference.per_step if known else 0) + 1

    def _taken(
        self, state: LaneState, view: View, block: Block, answer: Answer, *, records: bool
    ) -> Program[LaneState]:
        """The state after a step with these values; ``records``: x is first added to the curve."""
        values, spent = answer.values, self.spent(state)
        first, known = state.loss, state.center is not None
        failed, all_finite = None, finite(values)
        if not all_finite:
            state = counted(state, values)
        if not self.searches:
            state, failed = without_lost(
                self.iterate, state, view, block, values, all_finite=all_finite
            )
        v = self._differences(state, view, block, values, failed)
        ended = state.lost == self.iterate.replicates
        c = v if ended else self._coefficients(v, block)
        if all_finite and not ended:
            state = self.flatness.seen(state, block, v)

        state, here = self.iterate.saw(state, values), self._loss_by(state, values)
        if self.recorder.remembers_best:
            state = self.recorder.with_best(state, block, values)
        if records:
            look = self.iterate.looks_on_grid and not self.iterate.charges_looks
            state, seen = yield from self.recorder.observed(state, here, answer.gradient, look=look)
            seen = self.recorder.diagnosed(state, seen, block, values, v, c, ended=ended)
            state = self.recorder.recorded(state, seen)
        elif here is not None:
            state = state.but(
                loss=here if failed is None else torch.where(failed, state.loss, here)
            )
        state = self.iterate.averaged(state, lambda: self.rule.weight(view.step, block.q))
        evaluations = self.iterate.difference.evaluations(block.q)
        evaluations -= self.iterate.difference.per_step if known else 0
        state = state.but(ledger=state.ledger.charge(block.q, evaluations))
        checks = records or self.iterate.charges_looks
        if checks and not (state.steps or self.estimates or self.searches) and failed is None:
            state = yield from self.checks.noise(state, first, v)
        if self.blocks.sees_values and not ended:
            state = self._with_next_q(state, view, block, v, c)
        if not ended:
            step = ProbedStep(view, block, values, v, c, spent)
            state = yield from self._moved(state, step)
        else:
            self.iterate.stay(view.step + 1)
        return state.but(steps=state.steps + 1, q=block.q)

    def _differences(
        self, state: LaneState, view: View, block: Block, values: Tensor, failed: Tensor | None
    ) -> Tensor:
        """v from a step's values: clipped, 0 for failures, minus Uᵀm if m is remembered."""
        v = self.iterate.difference.quotient(values, self.iterate.mu)
        if self.searches:
            v = torch.where(v.isfinite(), v, 0)
        if self.config.clip is not None:
            v = v.clamp(-self.config.clip, self.config.clip)
        if failed is not None:
            v = v.masked_fill(failed[:, None], 0)
        if self.motion.remembers:
            v = v - self.iterate.explained(state, view, block).to(v.device, v.dtype)
        return v

    def _with_next_q(
        self, state: LaneState, view: View, block: Block, v: Tensor, c: Tensor
    ) -> LaneState:
        """The state with the size of the next block."""
        last = Last(block.q, view.dim, v[0], c[0], block)
        return state.but(next_q=self.blocks.next(view.step + 1, last))

    def _loss_by(self, state: LaneState, values: Tensor) -> Tensor | None:
        """f(x) by the values of a step; None if they do not include it.

        If every evaluation is charged, and the step has central differences, it is the mean of the
        values on both sides, which differs from f(x) by curvature times mu². It is at least their
        lowest, so that it never is the best loss.
        """
        if self.iterate.sees_loss:
            return values.select(1, 0)
        if state.center is not None or not self.iterate.charges_looks:
            return state.center
        mean = torch.maximum(values.mean(-1), values.amin(-1))
        return torch.where(mean.isfinite(), mean, state.loss)

    def _moved(self, state: LaneState, step: ProbedStep) -> Program[LaneState]:
        """The state after the move; f(x) is no longer known, unless x stays or was a trial."""
        if self.iterate.charges_looks and self.iterate.sees_loss:
            state = state.but(center=step.values.select(1, 0))
        after = yield from self._going(state, step)
        if after.center is not state.center or torch.equal(after.x, state.x):
            return after
        return after.but(center=None)

    def _going(self, state: LaneState, step: ProbedStep) -> Program[LaneState]:
        """The state after x has moved by the step rule; x stays if no trial step was accepted."""
        if self.rule.entry.search is not None:
            if self.flatness.goes_on(state) and not bool(step.c.any()):
                return self.searcher.left(state, step)
            return (yield from self.searcher.moved(state, step))
        view, block = step.view, step.block
        eta = self.size.eta(view.step, block.q, step.spent, view.dim)
        c = self.size.scaled(state, step.c)
        return self.iterate.move(state, view, block, c, eta, self.motion)

    def stopping(self, state: LaneState) -> Program[LaneState]:
        """Record the last point of the curve; its loss is evaluated if it is not known."""
        if self.iterate.charges_looks:
            return (yield from self._ended(state))
        looked = self.iterate.looks_on_grid or state.lost or state.looked == self.spent(state)
        if state.curve.last_spent == self.spent(state) and looked:
            return state
        state, seen = yield from self.recorder.observed(state, look=True, ends=True)
        return self.recorder.recorded(state, seen)

    def _ended(self, state: LaneState) -> Program[LaneState]:
        """The same where looking is charged: the budget has one evaluation left for it."""
        if state.curve.last_spent == self.spent(state):
            return state
        loss, buys = state.center, self.budget.buys_value(state.ledger)
        state, seen = yield from self.recorder.observed(state, loss, look=buys, ends=True)
        return self.recorder.recorded(state, seen)

    def _walked(self, state: LaneState, goal: int) -> LaneState | None:
        """The state after fused steps up to the next curve point; None if steps cannot be fused.

        If a value was not finite, the same steps are taken one by one.
        """
        count = self._unseen(state, goal)
        if not count:
            return None
        self.flatness.use(state)
        q, steps = self.blocks.most, range(state.steps, state.steps + count)
        etas = self.size.etas(steps, q, self.iterate.dim)
        walked = self.iterate.walk(
            state.x, steps, q, etas, lambda v, b: self.size.scaled(state, self._coefficients(v, b))
        )
        if walked is None:
            return self._stepped(state, count)
        x, values = walked
        ledger = state.ledger.charge(count * q, count * self.iterate.difference.evaluations(q))
        loss = values.select(1, 0) if self.iterate.sees_loss else state.loss
        return state.but(x=x, steps=steps.stop, q=q, ledger=ledger, loss=loss)

    def _stepped(self, state: LaneState, count: int) -> LaneState:
        """The state after ``count`` single steps; stops where a replicate diverges."""
        lost = state.lost
        while count and state.lost == lost:
            state, count = self.evaluator.run(self.stepping, state), count - 1
        return state

    def _unseen(self, state: LaneState, goal: int) -> int:
        """How many steps can be fused before one is recorded or the goal is reached."""
        if not self._walks or state.lost:
            return 0
        spent, cost = self.spent(state), self.budget.cost(self.blocks.most)
        to_grid, left = next_point(self.grid, spent) - spent, self.budget.limit - spent
        return min(to_grid // cost, left // cost, -(-(goal - spent) // cost), LONGEST_WALK)

    @property
    def _walks(self) -> bool:
        """Whether steps may be fused: plain SGD, fixed q, a pure objective, in this process."""
        plain = self.motion.plain and self.config.clip is None and not self.size.scheduled
        plain = plain and self.blocks.is_fixed and self.rule.entry.search is None
        fuses = self.evaluator.in_process and self.iterate.pure
        return plain and fuses and not self.iterate.stochastic

    def spent(self, state: LaneState) -> int:
        """Spent budget, in the unit of ``count``."""
        return self.budget.spent(state.ledger)

    def status(self, state: LaneState) -> str:
        """``running``, ``exhausted``, or ``diverged`` if all replicates have diverged."""
        if state.lost == self.iterate.replicates:
            return DIVERGED
        return RUNNING if self._block_size(state) else EXHAUSTED

    @gradient_free
    def report(self, state: LaneState) -> tuple[LaneState, Observation]:
        """An observation of this state, and the state with its evaluations counted."""
        return self.evaluator.run(self.reporting, state)

    def reporting(self, state: LaneState) -> Program[tuple[LaneState, Observation]]:
        """The program of ``report``. If looking is charged, the row has the last known loss."""
        self.iterate.require_at(state)
        if self.iterate.charges_looks:
            ended = state.curve.last_spent == self.spent(state)
            return state, state.curve[-1] if ended else self.recorder.observation(state)
        if self.iterate.looks_on_grid:
            if state.curve.last_spent == self.spent(state):
                return state, state.curve[-1]
            return (yield from self.recorder.observed(state, look=True))
        if state.looked < self.spent(state) and not state.lost:
            state, seen = yield from self.recorder.observed(state, look=True)
            state = self.recorder.recorded(state, seen)
        elif state.curve.last_spent < self.spent(state):
            state = self.recorder.recorded(state, self.recorder.observation(state))
        return state, state.curve[-1]

    def _coefficients(self, v: Tensor, block: Block) -> Tensor:
        """c from v, whose dtype may be more precise than that of x."""
        if v.dtype != self.iterate.coefficient_dtype:
            v = v.to(self.iterate.coefficient_dtype)
        return self.estimator(v, block)
