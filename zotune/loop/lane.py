"""Replicates that go in step: ``state → state``, for a vector and for a model's weights alike.

The loop owns budget, step size, clipping, divergence, records and status. What is evaluated, and
how x is moved, is the iterate's. Nothing here knows of Ray or MLflow.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.config import Config
from zotune.core.budget import Budget, Ledger
from zotune.core.curve import Observation
from zotune.core.grid import budget_grid, crosses, next_point
from zotune.core.names import DIVERGED, EXHAUSTED, RUNNING
from zotune.core.state import LaneState
from zotune.errors import ConfigError, ObjectiveError
from zotune.estimators import ESTIMATORS, require_possible
from zotune.evaluators import SERIAL, Evaluator
from zotune.iterates import Answer, Iterate, Program, View
from zotune.iterates.vectors import finite, some_are_equal
from zotune.loop.curvature import estimate_curvature, probes_for, probing_cost
from zotune.loop.gradient_free import gradient_free
from zotune.loop.noise import LOOKS, alike, refuse_noise
from zotune.steps import LEVEL, StepRule, schedule_factor

PROBING = -1
"""The step under whose address curvature is probed before the first."""
LONGEST_WALK = 64
"""The most steps between two checks for values that are not finite."""


class Lane:
    """One configuration bound to one iterate.

    Args:
        config: the checked configuration.
        iterate: where x lives.
        evaluator: who answers its requests.
    """

    def __init__(self, config: Config, iterate: Iterate, evaluator: Evaluator = SERIAL) -> None:
        self.config = config
        self.iterate = iterate
        self.evaluator = evaluator
        self.estimator = ESTIMATORS[config.estimator]
        self.update = config.named_update
        self._move = self.update.bound(config.momentum)
        require_possible(self.estimator, iterate.directions, config.q, iterate.dim)
        self.budget = Budget(config.budget, config.count, iterate.difference)
        self.budget.require(
            self.budget.cost(config.q), f"one step ({config.difference} with q={config.q})"
        )
        self._rules: dict[int, StepRule] = {}
        self.rule = self._rule(iterate.dim)
        self.grid = budget_grid(config.budget, config.points)
        self.known_smoothness = config.L or iterate.smoothness
        """L as given, or as the objective knows it; None where it is estimated."""
        self._check_smoothness()
        self.estimates = self.rule.needs_smoothness and self.known_smoothness is None
        self._scheduled = config.schedule != LEVEL or config.warmup > 0
        self.remembers_best = not (iterate.pure or iterate.stochastic)
        """Whether every charged value may be of the best point. Values of a mini-batch are not
        losses; of pure objectives, which are cheap, only recorded points are compared."""
        self.newest: LaneState | None = None
        """The state after the last whole step, for a caller whose objective has raised."""

    @property
    def needs_smoothness(self) -> bool:
        """Whether the step is divided by L."""
        return self.rule.needs_smoothness

    def chosen(self, state: LaneState) -> dict[str, str]:
        """Everything was told."""
        return {}

    @gradient_free
    def init(self) -> LaneState:
        """The state before the first step: its loss looked at, curvature probed where needed."""
        return self.evaluator.run(self.begin)

    def begin(self) -> Program[LaneState]:
        """The same as a program."""
        own = self.iterate.begin()
        like = self._numbers(torch.nan)
        state = LaneState(
            **own,
            steps=0,
            lost=0,
            ledger=Ledger(),
            loss=like,
            start_loss=like,
            best_loss=like.clone().fill_(torch.inf),
            diverged=torch.zeros(self.iterate.replicates, dtype=torch.bool, device=like.device),
            inverse_smoothness=like[:, None].to(own["x"].dtype),
            slots=self.iterate.new_slots(self.update.slots),
        )
        request = self.iterate.look(state)
        assert request is not None  # all replicates run
        answer = yield request
        loss = answer.values
        if not bool(loss.isfinite().all()):
            raise ObjectiveError(self.iterate.start_error(loss))
        state = self._looked(state, answer).but(loss=loss, start_loss=loss, best_loss=loss)
        if not self.iterate.looks_on_grid:
            state = self._recorded(state, self._observation(state))
        return (yield from self.adopting(state))

    @gradient_free
    def adopt(self, state: LaneState) -> LaneState:
        """A state, maybe of another configuration, made ready to continue under this one."""
        return self.evaluator.run(self.adopting, state)

    def adopting(self, state: LaneState) -> Program[LaneState]:
        """The same as a program.

        L is as given, as the objective knows it, as the state knows it, or estimated and charged.
        """
        if state.slots.keys() != set(self.iterate.new_slots(self.update.slots)):
            state = state.but(slots=self.iterate.new_slots(self.update.slots))
        if self.known_smoothness is not None:
            inverse = torch.full_like(state.inverse_smoothness, 1 / self.known_smoothness)
            return state.but(inverse_smoothness=inverse)
        unknown = bool(state.inverse_smoothness.isnan().any())
        if unknown and self.rule.needs_smoothness:
            return (yield from self._probed(state))
        return state

    @gradient_free
    def step(self, state: LaneState) -> LaneState:
        """One step of zeroth-order descent: v along U, c from v and U, x ← x − η U c."""
        self.iterate.require_at(state)
        return self.evaluator.run(self.stepping, state)

    def stepping(self, state: LaneState) -> Program[LaneState]:
        """The same as a program."""
        q = self.budget.block(state.ledger, self.config.q)
        view = self.iterate.view(state.steps)
        block = self.iterate.block(view, q)
        spent = self.spent(state)
        records = crosses(self.grid, spent, spent + self.budget.cost(q))
        if not self.iterate.looks_on_grid:  # a look would be replaced by what is known without
            records = records and state.curve.last_spent < spent
        answer = yield self.iterate.probes(state, view, block, records=records)
        return (yield from self._taken(state, view, block, answer, records=records))

    def _taken(
        self, state: LaneState, view: View, block: Block, answer: Answer, *, records: bool
    ) -> Program[LaneState]:
        """The state after a step with these values, which is recorded before it moves if told."""
        values, spent = answer.values, self.spent(state)
        first = state.loss
        state, failed = self._without_lost(state, view, block, values)
        v = self.iterate.difference.quotient(values, self.iterate.mu)
        if self.config.clip is not None:
            v = v.clamp(-self.config.clip, self.config.clip)
        if failed is not None:
            v = v.masked_fill(failed[:, None], 0)
        ended = state.lost == self.iterate.replicates
        c = v if ended else self._coefficients(v, block)

        state = self.iterate.saw(state, values)
        if self.remembers_best:
            state = self._with_best(state, block, values)
        if records:
            loss = values[:, 0] if self.iterate.sees_loss else None
            state, seen = yield from self._observed(
                state, loss, answer.gradient, look=self.iterate.looks_on_grid
            )
            seen = self._diagnosed(state, seen, block, values, v, c, ended=ended)
            state = self._recorded(state, seen)
            if not state.steps and failed is None:
                state = yield from self._check_noise(state, first, v)
        elif self.iterate.sees_loss:
            last = values.select(1, 0)
            state = state.but(
                loss=last if failed is None else torch.where(failed, state.loss, last)
            )
        state = self.iterate.averaged(state, lambda: self.rule.weight(view.step, block.q))
        if not ended:
            eta = self._eta(view.step, block.q, spent, view.dim)
            state = self.iterate.move(
                state, view, block, self._scaled(state, c), eta, self.update, self._move
            )
        else:
            self.iterate.stay(view.step + 1)
        return state.but(
            steps=state.steps + 1,
            q=block.q,
            ledger=state.ledger.charge(block.q, self.iterate.difference.evaluations(block.q)),
        )

    def _without_lost(
        self, state: LaneState, view: View, block: Block, values: Tensor
    ) -> tuple[LaneState, Tensor | None]:
        """The state without replicates that this step has lost, and which of all are lost in it.

        A replicate is lost where a value is not finite, or where it has run uphill until
        x + mu·u = x. That is decided by the points, not by equal values: a plateau is not
        divergence, and noise hides nothing. The values are f(x) itself then.
        """
        failed = None if finite(values) else ~values.isfinite().all(-1)
        loss = state.loss
        if not self.iterate.pure or some_are_equal(values):
            here = values.select(1, 0)
            uphill = here > state.start_loss
            if bool(uphill.any()):
                stuck = uphill & self.iterate.unmoved_by(state, view, block)
                if bool(stuck.any()):
                    if not self.iterate.stochastic:
                        loss = torch.where(stuck & ~state.diverged, here, loss)
                    failed = stuck if failed is None else failed | stuck
        if failed is None:
            return state, None
        diverged = state.diverged | failed
        return state.but(diverged=diverged, lost=int(diverged.sum()), loss=loss), failed

    def _with_best(self, state: LaneState, block: Block, values: Tensor) -> LaneState:
        """The state that remembers the best point of all whose values were charged."""
        lowest, at = values.masked_fill(~values.isfinite(), torch.inf).min(-1)
        better = (lowest < state.best_loss) & ~state.diverged
        if not bool(better.any()):
            return state
        points = self.iterate.points_at(state, block, at)
        return state.but(
            best_loss=torch.where(better, lowest, state.best_loss),
            best_x=torch.where(better[:, None], points, state.best_x),
        )

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
        return self.evaluator.run(self.ending, state)

    def ending(self, state: LaneState) -> Program[LaneState]:
        """The state with its end on its curve, where it has ended."""
        looked = self.iterate.looks_on_grid or state.lost or state.looked == self.spent(state)
        done = state.curve.last_spent == self.spent(state) and looked
        if self.status(state) == RUNNING or done:
            return state
        state, seen = yield from self._observed(state, look=True, ends=True)
        return self._recorded(state, seen)

    def _walked(self, state: LaneState, goal: int) -> LaneState | None:
        """The state after steps that no curve shows, where the iterate has a fast way for them."""
        count = self._unseen(state, goal)
        if not count:
            return None
        q, steps = self.config.q, range(state.steps, state.steps + count)
        etas = [self._eta(t, q, 0, self.iterate.dim) for t in steps]
        walked = self.iterate.walk(
            state.x, steps, q, etas, lambda v, b: self._scaled(state, self._coefficients(v, b))
        )
        if walked is None:
            return self._stepped(state, count)
        x, values = walked
        ledger = state.ledger.charge(count * q, count * self.iterate.difference.evaluations(q))
        loss = values.select(1, 0) if self.iterate.sees_loss else state.loss
        return state.but(x=x, steps=steps.stop, q=q, ledger=ledger, loss=loss)

    def _stepped(self, state: LaneState, count: int) -> LaneState:
        """The state after so many steps, or after one that has lost a replicate."""
        lost = state.lost
        while count and state.lost == lost:
            state, count = self.evaluator.run(self.stepping, state), count - 1
        return state

    def _unseen(self, state: LaneState, goal: int) -> int:
        """How many steps can be walked before one is recorded or the goal is reached."""
        if not self._walks or state.lost:
            return 0
        spent, cost = self.spent(state), self.budget.cost(self.config.q)
        to_grid = next_point(self.grid, spent) - spent
        return min(to_grid // cost, -(-(goal - spent) // cost), LONGEST_WALK)

    @property
    def _walks(self) -> bool:
        """Whether plain steps need not be looked at one by one."""
        plain = self.update.plain and self.config.clip is None and not self._scheduled
        fuses = self.evaluator.in_process and self.iterate.pure
        return plain and fuses and not self.iterate.stochastic

    def spent(self, state: LaneState) -> int:
        """Spent budget, in the unit of ``count``."""
        return self.budget.spent(state.ledger)

    def status(self, state: LaneState) -> str:
        """running, exhausted, or diverged when all replicates have."""
        if state.lost == self.iterate.replicates:
            return DIVERGED
        return RUNNING if self.budget.block(state.ledger, self.config.q) else EXHAUSTED

    @gradient_free
    def report(self, state: LaneState) -> tuple[LaneState, Observation]:
        """What is known of the state as it is, and the state that has counted this look."""
        return self.evaluator.run(self.reporting, state)

    def reporting(self, state: LaneState) -> Program[tuple[LaneState, Observation]]:
        """The same as a program."""
        self.iterate.require_at(state)
        if self.iterate.looks_on_grid:
            if state.curve.last_spent == self.spent(state):
                return state, state.curve[-1]
            return (yield from self._observed(state, look=True))
        if state.looked < self.spent(state) and not state.lost:
            state, seen = yield from self._observed(state, look=True)
            state = self._recorded(state, seen)
        elif state.curve.last_spent < self.spent(state):
            state = self._recorded(state, self._observation(state))
        return state, state.curve[-1]

    def _observed(
        self,
        state: LaneState,
        loss: Tensor | None = None,
        gradient: Tensor | None = None,
        *,
        look: bool,
        ends: bool = False,
    ) -> Program[tuple[LaneState, Observation]]:
        """What is known at x, and the state that remembers the best of it.

        The loss is looked at, if told, unless it is known already. A loss that is not finite is
        divergence where the run ``ends``. Before, only what a step evaluates tells: a run must not
        depend on where it is looked at.
        """
        if loss is None and look:
            request = self.iterate.look(state)
            if request is None:
                loss = torch.full_like(state.loss, torch.nan)
            else:
                answer = yield request
                state, loss = self._looked(state, answer), answer.values
                gradient = answer.gradient if gradient is None else gradient
        if loss is not None:
            state = self._with_loss(state, loss, ends=ends)
        return state, self._observation(state, gradient)

    def _looked(self, state: LaneState, answer: Answer) -> LaneState:
        """The state that has counted a look."""
        return state.but(
            ledger=state.ledger.monitor(),
            looked=self.spent(state),
            metrics={**state.metrics, **answer.metrics},
        )

    def _with_loss(self, state: LaneState, loss: Tensor, *, ends: bool) -> LaneState:
        """The state that has seen this loss."""
        if state.lost or not finite(loss):
            known = loss.isfinite() & ~state.diverged
            if ends:
                state = state.but(diverged=~known, lost=int((~known).sum()))
            loss = torch.where(known, loss, state.loss)
            better = known & (loss < state.best_loss)
        else:
            loss, better = loss.clone(), loss < state.best_loss
        return state.but(
            loss=loss,
            best_loss=torch.where(better, loss, state.best_loss),
            best_x=_chosen(better, state.x, state.best_x),
        )

    def _observation(self, state: LaneState, gradient: Tensor | None = None) -> Observation:
        loss = state.loss
        if state.lost:
            loss = torch.where(state.diverged, torch.maximum(state.start_loss, loss), loss)
        tensors = {"loss": loss, "best_loss": state.best_loss, "diverged": state.diverged}
        tensors |= self.iterate.observed(state, gradient)
        if self.config.diagnostics:
            unknown = loss.new_full((1,), torch.nan)
            tensors = dict.fromkeys(("snr", "cosine", "unmoved"), unknown) | tensors
        return Observation(
            queries=state.ledger.queries,
            evaluations=state.ledger.evaluations,
            monitored=state.ledger.monitored,
            steps=state.steps,
            q=state.q,
            spent=self.spent(state),
            tensors=tensors,
        )

    def _recorded(self, state: LaneState, seen: Observation) -> LaneState:
        return self.iterate.recorded(state).but(curve=state.curve.append(seen))

    def _diagnosed(
        self,
        state: LaneState,
        seen: Observation,
        block: Block,
        values: Tensor,
        v: Tensor,
        c: Tensor,
        *,
        ended: bool,
    ) -> Observation:
        """Means over replicates: signal over rounding in v, cosine with ∇f, weights mu misses."""
        if not self.config.diagnostics or ended:
            return seen
        rounding = torch.finfo(values.dtype).eps * values.abs().mean(-1) / self.iterate.mu
        snr = (v.square().mean(-1).sqrt() / rounding).mean()
        gradient = self.iterate.gradient(state)
        cosine = torch.full_like(snr, torch.nan)
        if gradient is not None:
            estimate = block.combine(c)
            cosine = torch.cosine_similarity(gradient, estimate, dim=-1).mean()
        unmoved = self.iterate.unmoved(state)
        told = {"snr": snr, "cosine": cosine.to(snr), "unmoved": unmoved.to(snr)}
        tensors = {**seen.tensors, **{name: value.view(1) for name, value in told.items()}}
        return Observation(**{**seen.__dict__, "tensors": tensors})

    def _coefficients(self, v: Tensor, block: Block) -> Tensor:
        """c from v, which may have more digits than x."""
        if v.dtype != self.iterate.coefficient_dtype:
            v = v.to(self.iterate.coefficient_dtype)
        return self.estimator.coefficients(v, block)

    def _eta(self, t: int, q: int, spent: int, dim: int) -> float:
        """η of x − η U c, in units of 1/L where that is estimated for each replicate."""
        rule = self._rule(dim)
        eta = rule.size(t, q)
        if self._scheduled:
            budget, after = self.config.budget, spent + self.budget.cost(q)
            eta *= schedule_factor(
                self.config.schedule, self.config.warmup, spent / budget, after / budget
            )
        if rule.needs_smoothness and self.known_smoothness is not None:
            return eta / self.known_smoothness
        return eta

    def _rule(self, dim: int) -> StepRule:
        """How far to go along an estimate in R^dim."""
        if dim not in self._rules:
            c = self.config
            self._rules[dim] = StepRule(
                c.step, c.eta, c.q, dim, self.estimator, self.iterate.directions
            )
        return self._rules[dim]

    def _scaled(self, state: LaneState, c: Tensor) -> Tensor:
        """c, times 1/L where that is estimated for each replicate."""
        return c * state.inverse_smoothness if self.estimates else c

    def _probed(self, state: LaneState) -> Program[LaneState]:
        """The state with L estimated around its points."""
        probes = min(probes_for(self.config.q, self.config.budget), self.iterate.dim)
        ledger = state.ledger.charge(*probing_cost(probes))
        needed = self.budget.spent(ledger) + self.budget.cost(1)
        self.budget.require(needed, "an estimate of L and one step")
        if state.curve.last_spent < self.spent(state):
            state, seen = yield from self._observed(state, state.loss, look=True)
            state = self._recorded(state, seen)
        view = View(PROBING, self.iterate.dim)
        block, mu = self.iterate.block(view, probes), self.config.mu
        found = yield from estimate_curvature(
            lambda points: self.iterate.trial(state, view, points), state.x, block, mu
        )
        state = state.but(ledger=ledger)
        if not state.steps and not self.iterate.stochastic:
            changes = {"its curvature": found.bend} | self._differences(found.slope)
            state = yield from self._look_again(state, found.center, changes)
        inverse = (1 / found.smoothness[:, None]).to(state.x.dtype)
        return state.but(inverse_smoothness=inverse)

    def _check_noise(self, state: LaneState, once: Tensor, v: Tensor) -> Program[LaneState]:
        """The state, unless its loss, seen ``once`` before, tells that v is noise."""
        if self.iterate.stochastic or self.estimates:
            return state
        changes = self._differences(v.square().mean(-1).sqrt())
        return (yield from self._look_again(state, once, changes))

    def _differences(self, slope: Tensor) -> dict[str, Tensor]:
        """How much f changes over mu, by name, unless mu was chosen knowingly."""
        mu = self.iterate.mu
        return {} if self.config.mu else {f"differences over mu={mu:g}": slope * mu}

    def _look_again(
        self, state: LaneState, other: Tensor, changes: dict[str, Tensor]
    ) -> Program[LaneState]:
        """The state that has looked for noise, if its loss differs from another at its points."""
        if not changes or alike(state.loss, other):
            return state
        looks = [state.loss, other]
        for _ in range(LOOKS):
            request = self.iterate.look(state)
            assert request is not None  # all replicates run
            looks.append((yield request).values)
        for what, size in changes.items():
            refuse_noise(torch.stack(looks, dim=-1), size, what)
        return state.but(ledger=state.ledger.monitor(LOOKS))

    def _numbers(self, value: float) -> Tensor:
        """One number a replicate."""
        it = self.iterate
        return torch.full((it.replicates,), value, dtype=it.value_dtype, device=it.device)

    def _check_smoothness(self) -> None:
        known = self.known_smoothness is not None or self.iterate.can_probe_curvature
        if self.rule.needs_smoothness and not known:
            raise ConfigError(
                "step 'theory' needs the smoothness L, which is not estimated for the weights of "
                "a model; give L, or step='constant' with eta"
            )


def _chosen(better: Tensor, x: Tensor, best_x: Tensor) -> Tensor:
    """Points of the replicates that are better than ever, and the best ones of the others."""
    return x if bool(better.all()) else torch.where(better[:, None], x, best_x)
