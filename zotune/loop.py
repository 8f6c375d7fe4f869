"""The query-budgeted loop: frozen configuration, frozen state, ``step(state) → state``.

Replicates are rows of one batched program. Nothing here knows of Ray or MLflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from math import isfinite
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.budget import Budget, Ledger
from zotune.config import Config
from zotune.curvature import estimate_curvature, probes_for, probing_cost
from zotune.curve import DIVERGED, EXHAUSTED, RUNNING, Curve
from zotune.errors import ConfigError, ObjectiveError
from zotune.estimators import ESTIMATORS, require_possible
from zotune.grid import budget_grid, crosses, next_point
from zotune.noise import LOOKS, alike, refuse_noise
from zotune.objectives import Objective, dtype_name
from zotune.observing import Observer, Probe
from zotune.probing import Prober
from zotune.state import State
from zotune.steps import StepRule

PROBING = -1
"""The step under whose address curvature is probed before the first."""
LONGEST_WALK = 64
"""Steps after which values are looked through; a pure objective is asked for no more in vain."""

P = ParamSpec("P")
Result = TypeVar("Result")


def _gradient_free(
    method: Callable[Concatenate[Loop, P], Result],
) -> Callable[Concatenate[Loop, P], Result]:
    """Keep autograd out of a method; its very bookkeeping where the objective cannot want it."""

    @wraps(method)
    def call(loop: Loop, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        with torch.inference_mode() if loop.objective.pure else torch.no_grad():
            return method(loop, *args, **kwargs)

    return call


class Loop:
    """One configuration bound to one objective.

    Args:
        config: the checked configuration.
        objective: what is minimised; its dimension and dtype complete the checks.
        x0: the start, (d,) or (replicates, d); the objective's own unless given.
    """

    def __init__(self, config: Config, objective: Objective, x0: Any = None) -> None:
        config.refuse_settings_for_weights()
        self.config = config
        self.objective = objective
        self.estimator = ESTIMATORS[config.estimator]
        self.prober = Prober(config, objective)
        self.difference = self.prober.difference
        require_possible(self.estimator, self.prober.directions, config.q, objective.dim)
        self.budget = Budget(config.budget, config.count, self.difference)
        self.budget.require(
            self.budget.cost(config.q), f"one step ({config.difference} with q={config.q})"
        )
        self.rule = StepRule(
            config.step,
            config.eta,
            config.q,
            objective.dim,
            self.estimator,
            self.prober.directions,
        )
        self.observer = Observer(self.prober, self.budget, diagnostics=config.diagnostics)
        self.grid = budget_grid(config.budget, config.points)
        self.known_smoothness = config.L or objective.L
        """L as given, or as the objective knows it; None where it is estimated."""
        self.remembers_best = not (objective.pure or objective.stochastic)
        """Whether every charged value may be of the best point. Values of a mini-batch are not
        losses; of pure objectives, which are cheap, only recorded points are compared."""
        self._estimates = self.rule.needs_smoothness and self.known_smoothness is None
        self.begins_at = self._checked_start(objective.start() if x0 is None else x0)
        """The start of every replicate, (replicates, d)."""
        self.newest: State | None = None
        """The state after the last whole step, for a caller whose objective has raised."""
        self._check_radius()

    @_gradient_free
    def init(self) -> State:
        """The state before the first step: its loss looked at, curvature probed where needed."""
        x = self.begins_at.clone()
        loss = self.observer.losses(x)
        if not bool(loss.isfinite().all()):
            raise ObjectiveError(
                f"the objective must be finite at the start point, got {loss.tolist()}; "
                "choose another x0"
            )
        state = State(
            x=x,
            steps=0,
            lost=0,
            ledger=Ledger().monitor(),
            loss=loss,
            start_loss=loss,
            best_loss=loss,
            best_x=x,
            diverged=torch.zeros(len(x), dtype=torch.bool, device=x.device),
            inverse_smoothness=torch.full_like(x[:, :1], torch.nan),
            average=torch.zeros_like(x if self.objective.stochastic else x[:, :0]),
            average_weight=0.0,
            curve=Curve(),
        )
        return self.adopt(state)

    @_gradient_free
    def adopt(self, state: State) -> State:
        """A state, maybe of another configuration, made ready to continue under this one.

        L is as given, as the objective knows it, as the state knows it, or estimated and charged.
        """
        if self.known_smoothness is not None:
            inverse = torch.full_like(state.inverse_smoothness, 1 / self.known_smoothness)
            return replace(state, inverse_smoothness=inverse)
        unknown = bool(state.inverse_smoothness.isnan().any())
        return self._probed(state) if unknown and self.rule.needs_smoothness else state

    @_gradient_free
    def step(self, state: State) -> State:
        """One step of zeroth-order descent: v along U, c from v and U, x ← x − η U c."""
        return self._step(state)

    def _step(self, state: State) -> State:
        """A step where gradients are off already: turning them off again costs as much as v."""
        q = self.budget.block(state.ledger, self.config.q)
        block = self.prober.block(state.steps, q)
        alive = ~state.diverged if state.lost else None
        spent = self.spent(state)
        if not crosses(self.grid, spent, spent + self.budget.cost(q)):
            values = self.prober.values(state.x, state.steps, block, alive)
            return self._taken(state, block, values)
        values, gradient = self.prober.values_and_gradient(state.x, state.steps, block, alive)
        return self._taken(state, block, values, gradient, records=True)

    def _taken(
        self,
        state: State,
        block: Block,
        values: Tensor,
        gradient: Tensor | None = None,
        *,
        records: bool = False,
    ) -> State:
        """The state after a step with these values, which is recorded before it moves if told."""
        v = self.difference.quotient(values, self.prober.mu)
        failed = None if _finite(values) else ~values.isfinite().all(-1)
        state, stuck = self._without_stuck(state, block, values)
        if stuck is not None:
            failed = stuck if failed is None else failed | stuck
        if failed is not None:
            v = v.masked_fill(failed[:, None], 0)
        c = self._coefficients(v, block)

        changes: dict[str, Any] = {}
        if self.remembers_best:
            state = self._with_best(state, block, values)
        if records:
            loss = values[:, 0] if self.observer.sees_loss else None
            before = state.loss
            state = self.observer.record(state, loss, Probe(values, v, block, c, gradient))
            if not state.steps and failed is None:
                state = self._check_noise(state, before, v)
        elif self.observer.sees_loss:
            last = values.select(1, 0)
            changes["loss"] = last if failed is None else torch.where(failed, state.loss, last)
        if failed is not None:
            changes["diverged"] = state.diverged | failed
            changes["lost"] = int(changes["diverged"].sum())
        x = state.x.clone()
        block.move_(x, self._scaled(state, c), self._eta(state.steps, block.q))
        return state.but(
            x=x,
            steps=state.steps + 1,
            ledger=state.ledger.charge(block.q, self.difference.evaluations(block.q)),
            **changes,
            **self._averaged(state, block.q),
        )

    def _walked(self, state: State, count: int) -> State:
        """The state after so many steps of ``_step`` that no curve shows: only x is kept.

        The values of these steps are checked at the end, all at once. If one is not finite, or if
        all of a step are equal (mu may no longer move x), the objective is asked for the same
        steps again, one by one.
        """
        q, mu, steps = self.config.q, self.prober.mu, range(state.steps, state.steps + count)
        walk, seen = self.prober.walk(state.x, q), list[Tensor]()
        etas = [self._eta(t, q) for t in steps]
        for t, eta in zip(steps, etas, strict=True):
            block, values = walk.look(t)
            seen.append(values)
            c = self._coefficients(self.difference.quotient(values, mu), block)
            block.move_(walk.x, self._scaled(state, c), eta)
        every = torch.cat(seen)
        if not _finite(every) or _some_are_equal(every):
            return self._stepped(state, count)
        return self._after(state, walk.x, steps.stop, seen[-1])

    def _without_stuck(
        self, state: State, block: Block, values: Tensor
    ) -> tuple[State, Tensor | None]:
        """The state without replicates that ran uphill until x + mu·u = x, and which those are.

        Decided by the points, not by equal values: a plateau is not divergence, and noise hides
        nothing. The values are f(x) itself then.
        """
        if self.objective.pure and not _some_are_equal(values):
            return state, None
        here = values.select(1, 0)
        stuck = (here > state.start_loss) & self.prober.unmoved_by(block, state.x)
        if not bool(stuck.any()):
            return state, None
        diverged = state.diverged | stuck
        loss = torch.where(stuck & ~state.diverged, here, state.loss)
        return state.but(diverged=diverged, lost=int(diverged.sum()), loss=loss), stuck

    def _with_best(self, state: State, block: Block, values: Tensor) -> State:
        """The state that remembers the best point of all whose values were charged."""
        lowest, at = values.masked_fill(~values.isfinite(), torch.inf).min(-1)
        better = (lowest < state.best_loss) & ~state.diverged
        if not bool(better.any()):
            return state
        points = self.prober.points_at(state.x, block, at)
        return state.but(
            best_loss=torch.where(better, lowest, state.best_loss),
            best_x=torch.where(better[:, None], points, state.best_x),
        )

    def _stepped(self, state: State, count: int) -> State:
        """The state after so many steps, or after one that has lost a replicate."""
        lost = state.lost
        while count and state.lost == lost:
            state, count = self._step(state), count - 1
        return state

    def _after(self, state: State, x: Tensor, steps: int, values: Tensor) -> State:
        """A state that has walked to x by a last step with those values."""
        q, walked = self.config.q, steps - state.steps
        ledger = state.ledger.charge(walked * q, walked * self.difference.evaluations(q))
        loss = values.select(1, 0) if self.observer.sees_loss else state.loss
        x = x.clone(memory_format=torch.contiguous_format)
        return state.but(x=x, steps=steps, ledger=ledger, loss=loss)

    def _unseen(self, state: State, goal: int) -> int:
        """How many steps can be walked before one is recorded or the goal is reached."""
        if state.lost or self.objective.stochastic or not self.objective.pure:
            return 0
        spent, cost = self.spent(state), self.budget.cost(self.config.q)
        to_grid = next_point(self.grid, spent) - spent
        return min(to_grid // cost, -(-(goal - spent) // cost), LONGEST_WALK)

    @_gradient_free
    def advance(self, state: State, until: int | None = None) -> State:
        """Step until so much is spent, or until nothing more can be; the end is recorded."""
        goal = self.config.budget if until is None else until
        self.newest = state
        while self.spent(state) < goal and self.status(state) == RUNNING:
            unseen = self._unseen(state, goal)
            self.newest = state = self._walked(state, unseen) if unseen else self._step(state)
        if self.status(state) != RUNNING and state.curve.last_spent < self.spent(state):
            state = self.observer.record(state, ends=True)
        return state

    def advance_to_report(self, state: State) -> State:
        """Step to the next multiple of ``report_every``, or to the end."""
        every = self.config.reports_at
        return self.advance(state, (self.spent(state) // every + 1) * every)

    def spent(self, state: State) -> int:
        """Spent budget, in the unit of ``count``."""
        return self.budget.spent(state.ledger)

    def status(self, state: State) -> str:
        """running, exhausted, or diverged when all replicates have."""
        if state.lost == self.config.replicates:
            return DIVERGED
        return RUNNING if self.budget.block(state.ledger, self.config.q) else EXHAUSTED

    @_gradient_free
    def report(self, state: State) -> tuple[State, dict[str, Any]]:
        """A result row for the state as it is, and the state that has counted this look."""
        if state.curve.last_spent == self.spent(state):
            seen = state.curve[-1]
        else:
            state, seen = self.observer.observe(state)
        return state, seen.row(self.status(state), self.objective.minimum)

    def curve_rows(self, state: State, after: int = -1) -> list[dict[str, Any]]:
        """Rows on the grid past spent budget ``after``, as far as they are final."""
        return state.curve.rows(
            self.grid,
            spent=self.spent(state),
            status=self.status(state),
            minimum=self.objective.minimum,
            after=after,
        )

    def final_losses(self, state: State) -> list[float]:
        """The loss of each replicate at the last observation."""
        losses: list[float] = state.curve[-1].loss.tolist()
        return losses

    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must agree on: problem and shape, not estimator, q or step."""
        shape = {"replicates": self.config.replicates, "count": self.config.count}
        return self.objective.fingerprint() | shape

    def _coefficients(self, v: Tensor, block: Block) -> Tensor:
        """c from v, which may have more digits than x."""
        if v.dtype != self.objective.dtype:
            v = v.to(self.objective.dtype)
        return self.estimator.coefficients(v, block)

    def _eta(self, t: int, q: int) -> float:
        """η of x − η U c, in units of 1/L where that is estimated for each replicate."""
        eta = self.rule.size(t, q)
        if self.rule.needs_smoothness and self.known_smoothness is not None:
            return eta / self.known_smoothness
        return eta

    def _scaled(self, state: State, c: Tensor) -> Tensor:
        """c, times 1/L where that is estimated for each replicate."""
        return c * state.inverse_smoothness if self._estimates else c

    def _averaged(self, state: State, q: int) -> dict[str, Any]:
        """The weighted sum of x_0 … x_t, kept where the objective is stochastic."""
        if not self.objective.stochastic:
            return {}
        weight = self.rule.weight(state.steps, q)
        return {
            "average": state.average + weight * state.x,
            "average_weight": state.average_weight + weight,
        }

    def _probed(self, state: State) -> State:
        """The state with L estimated around its points."""
        probes = min(probes_for(self.config.q, self.config.budget), self.objective.dim)
        ledger = state.ledger.charge(*probing_cost(probes))
        needed = self.budget.spent(ledger) + self.budget.cost(1)
        self.budget.require(needed, "an estimate of L and one step")
        if state.curve.last_spent < self.spent(state):
            state = self.observer.record(state, state.loss)
        block = self.prober.block(PROBING, probes)
        mu = self.config.mu
        found = estimate_curvature(lambda x: self.prober.sample(x, PROBING), state.x, block, mu)
        state = replace(state, ledger=ledger)
        if not state.steps and not self.objective.stochastic:
            changes = {"its curvature": found.bend} | self._differences(found.slope)
            state = self._look_again(state, found.center, changes)
        inverse = (1 / found.smoothness[:, None]).to(state.x.dtype)
        return replace(state, inverse_smoothness=inverse)

    def _checked_start(self, x0: Any) -> Tensor:
        """The start of every replicate, or what is wrong with it."""
        r, d = self.config.replicates, self.objective.dim
        start = torch.as_tensor(x0, dtype=self.objective.dtype, device=self.objective.device)
        start = start.detach()
        if start.shape not in ((d,), (r, d)):
            raise ConfigError(
                f"x0 must have shape ({d},) or ({r}, {d}), got {tuple(start.shape)}; "
                "it holds one coordinate for each dimension of the objective"
            )
        if not bool(start.isfinite().all()):
            raise ConfigError("x0 must be finite, got NaN or infinity in it; choose another start")
        return start.expand(r, d).contiguous()

    def _check_noise(self, state: State, once: Tensor, v: Tensor) -> State:
        """The state, unless its loss, seen ``once`` before, tells that v is noise."""
        if self.objective.stochastic or self._estimates:
            return state
        return self._look_again(state, once, self._differences(v.square().mean(-1).sqrt()))

    def _differences(self, slope: Tensor) -> dict[str, Tensor]:
        """How much f changes over mu, by name, unless mu was chosen knowingly."""
        mu = self.prober.mu
        return {} if self.config.mu else {f"differences over mu={mu:g}": slope * mu}

    def _look_again(self, state: State, other: Tensor, changes: dict[str, Tensor]) -> State:
        """The state that has looked for noise, if its loss differs from another at its points."""
        if not changes or alike(state.loss, other):
            return state
        looks = [state.loss, other, *(self.observer.losses(state.x) for _ in range(LOOKS))]
        for what, size in changes.items():
            refuse_noise(torch.stack(looks, dim=-1), size, what)
        return replace(state, ledger=state.ledger.monitor(LOOKS))

    def _check_radius(self) -> None:
        """Refuse a mu that rounding swallows whole."""
        if float(self.prober.unmoved(self.begins_at, 0)) == 1:
            raise ConfigError(
                f"mu must move the point: with mu={self.prober.mu:g} every x + mu·u rounds to x "
                f"in {dtype_name(self.objective.dtype)}; raise mu, or leave it out for the default"
            )


def _some_are_equal(values: Tensor) -> bool:
    """Whether a row has the same number everywhere."""
    return bool((values[:, 1:] == values[:, :1]).all(-1).any())


def _finite(values: Tensor) -> bool:
    """Whether none is NaN or infinity, which one sum tells."""
    return isfinite(values.sum().item())
