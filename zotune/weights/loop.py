"""The query-budgeted loop on the weights of a module.

The weights are in the module, and a step moves them there; everything else that evolves is a frozen
state. What a step does is a function of the weights, the configuration and the step's address.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite, nan
from typing import Any

import torch
from torch import Tensor

from zotune.addresses import replicate_keys
from zotune.budget import Budget
from zotune.config import ALL, FAST, Config
from zotune.curve import DIVERGED, EXHAUSTED, RUNNING
from zotune.differences import default_mu, get_difference
from zotune.directions import DIRECTIONS
from zotune.errors import ConfigError, ObjectiveError, ZotuneError
from zotune.estimators import ESTIMATORS, require_possible
from zotune.grid import budget_grid, crosses
from zotune.objectives import dtype_name
from zotune.steps import StepRule, schedule_factor
from zotune.weights.block import Shelf, TileBlock
from zotune.weights.layout import Layout
from zotune.weights.lean import LeanProbe
from zotune.weights.memory import choose_memory, saying_what_to_lower
from zotune.weights.objective import Batch, WeightsObjective
from zotune.weights.probing import FastProbe, Probe
from zotune.weights.state import WeightsState, curve_rows
from zotune.weights.updating import Updater


class WeightsLoop:
    """One configuration bound to the weights of one module.

    Args:
        config: the checked configuration.
        objective: the module, its trained parameters and its loss.
    """

    def __init__(self, config: Config, objective: WeightsObjective) -> None:
        self.config = config
        self.objective = objective
        self.estimator = ESTIMATORS[config.estimator]
        self.directions = DIRECTIONS[config.directions]
        self.difference = get_difference(config.difference)
        self.mu = config.mu or default_mu(objective.dtype, config.difference)
        self._check()
        self.budget = Budget(config.budget, config.count, self.difference)
        self.budget.require(
            self.budget.cost(config.q), f"one step ({config.difference} with q={config.q})"
        )
        self.rule = self._rule(objective.dim)
        self._check_smoothness()
        self.grid = budget_grid(config.budget, config.points)
        keys = replicate_keys("directions", config.seed, config.rows)
        self.batch_keys = replicate_keys("batches", config.seed, config.rows)
        self.memory = choose_memory(config, objective)
        """fast or lean."""
        probe = FastProbe if self.memory == FAST else LeanProbe
        rounding = replicate_keys("rounding", config.seed, config.rows)
        may_keep = config.block_bytes if self.memory == FAST else 0
        with saying_what_to_lower(config):
            self._shelf = Shelf(
                self.directions,
                keys,
                objective.device,
                dim=objective.dim,
                q=config.q,
                may_keep=may_keep,
            )
            self.probe: Probe = probe(objective, self.mu)
            width = self._shelf.width
            self.updater = Updater(objective.trained, width, rounding, config.momentum)
        self.layout = Layout.of_all(objective.trained, width)
        """Of all trained parameters."""
        self._check_radius()
        self.log: list[list[float]] = []
        """Of each step the factors a of its update Σ aᵢ uᵢ."""
        self.log_is_whole = True
        """Whether all of the log was made under this configuration's directions and momentum."""
        self._at: int | None = None
        """The step whose weights the module holds; None before the first and inside an update."""

    @torch.no_grad()
    def init(self) -> WeightsState:
        """The state before the first step, at the weights that the module has."""
        if self._at is not None:
            raise ZotuneError("this loop has begun already; build the objective and a loop anew")
        self._at = 0
        state = self._validated(WeightsState())
        if state.diverged:
            raise ObjectiveError(
                f"the validation loss must be finite at the start, got {state.loss}; "
                "look at the model and its data"
            )
        return state

    def adopt(self, state: WeightsState) -> WeightsState:
        """A state, maybe of another configuration, made ready to continue under this one."""
        return state

    @torch.no_grad()
    def step(self, state: WeightsState) -> WeightsState:
        """One step of zeroth-order descent: v along U, c from v and U, x ← x − η U c."""
        self.require_weights_of(state)
        q = self.budget.block(state.ledger, self.config.q)
        batch = self.objective.batch(self.batch_keys, state.steps)
        layout = self.layout_of(batch)
        block = self.block(state.steps, q, layout)
        with saying_what_to_lower(self.config):
            values = self.probe.values(batch, layout, block, self.difference)
        v = self.difference.quotient(values, self.mu).to(self.objective.device)
        if self.config.clip is not None:
            v = v.clamp(-self.config.clip, self.config.clip)
        spent = self.spent(state)
        state = self._seen(state, values, layout, block)
        ledger = state.ledger.charge(q, self.difference.evaluations(q))
        if crosses(self.grid, spent, self.budget.spent(ledger)) and state.last_spent < spent:
            state = state.recorded(spent)
        state = replace(state, ledger=ledger, steps=state.steps + 1)
        if state.diverged:
            self._at = state.steps
            return state
        size = self._size(state.steps - 1, q, spent, self._rule(layout.dim))
        a = size * self.estimator(v, block)[0].double()
        return self._moved(state, layout, block, a.tolist())

    @torch.no_grad()
    def advance(self, state: WeightsState, until: int | None = None) -> WeightsState:
        """Step until so much is spent, or until nothing more can be."""
        goal = self.config.budget if until is None else until
        while self.spent(state) < goal and self.status(state) == RUNNING:
            state = self.step(state)
        return state

    def advance_to_report(self, state: WeightsState) -> WeightsState:
        """Step to the next multiple of ``report_every``, or to the end."""
        every = self.config.reports_at
        return self.advance(state, (self.spent(state) // every + 1) * every)

    def spent(self, state: WeightsState) -> int:
        """Spent budget, in the unit of ``count``."""
        return self.budget.spent(state.ledger)

    def status(self, state: WeightsState) -> str:
        """running, exhausted or diverged."""
        if state.diverged:
            return DIVERGED
        return RUNNING if self.budget.block(state.ledger, self.config.q) else EXHAUSTED

    @torch.no_grad()
    def report(self, state: WeightsState) -> tuple[WeightsState, dict[str, Any]]:
        """A result row for the state as it is; the held-out data are looked at for it."""
        self.require_weights_of(state)
        if state.validated < self.spent(state) and not state.diverged:
            state = self._validated(state)
        elif state.last_spent < self.spent(state):
            state = state.recorded(self.spent(state))
        return state, state.curve[-1].row(self.status(state))

    def final_losses(self, state: WeightsState) -> list[float]:
        """The loss at the last look, of the one replicate there is."""
        return [state.curve[-1].loss]

    def curve_rows(self, state: WeightsState, after: int = -1) -> list[dict[str, Any]]:
        """Rows on the grid past spent budget ``after``, as far as they are final."""
        return curve_rows(
            state.curve, self.grid, spent=self.spent(state), status=self.status(state), after=after
        )

    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must agree on: problem and shape, not estimator, q or step."""
        return self.objective.fingerprint() | {"replicates": 1, "count": self.config.count}

    def layout_of(self, batch: Batch) -> Layout:
        """The vector of a step: what its mini-batch sees, unless all rows are asked for."""
        if self.config.embedding_rows == ALL:
            return self.layout
        return self.layout.seen(self.objective.touched(batch))

    def block(self, step: int, q: int, layout: Layout) -> TileBlock:
        """The directions of a step."""
        if self.directions.orthogonal and q > layout.dim:
            raise ConfigError(
                f"q must be at most the dimension for directions {self.directions.name!r}, got "
                f"q={q} where a mini-batch sees {layout.dim} weights; lower q, or set "
                "embedding_rows='all'"
            )
        return self._shelf.block(step, q, layout.dim)

    def _seen(
        self, state: WeightsState, values: Tensor, layout: Layout, block: TileBlock
    ) -> WeightsState:
        """The state that has seen a mini-batch's losses."""
        if not isfinite(float(values.sum())):
            return replace(state, diverged=True)
        if float(values[0, 0]) > state.start_loss and not self._moves(layout, block):
            return replace(state, diverged=True)
        center = values[:, :1] if self.difference.knows_center else values
        loss = state.batch_losses + float(center.mean())
        return replace(state, batches=state.batches + 1, batch_losses=loss)

    def _moved(
        self, state: WeightsState, layout: Layout, block: TileBlock, a: list[float]
    ) -> WeightsState:
        """Move the weights; the first step after a look at the data also counts what stays."""
        looks = len(state.curve) and state.curve[-1].steps == state.steps - 1
        self._at = None
        radius = self.mu if looks else None
        still = self.updater.move(layout, block, state.steps - 1, a, radius)
        self._at = state.steps
        self.log.append(a)
        return state if still is None else replace(state, unmoved=still)

    def _rule(self, dim: int) -> StepRule:
        """How far to go along an estimate in R^dim."""
        config = self.config
        return StepRule(config.step, config.eta, config.q, dim, self.estimator, self.directions)

    def _size(self, step: int, q: int, spent: int, rule: StepRule) -> float:
        """η, with 1/L and the schedule in it."""
        budget, after = self.config.budget, spent + self.budget.cost(q)
        factor = schedule_factor(
            self.config.schedule, self.config.warmup, spent / budget, after / budget
        )
        smoothness = (self.config.L or 1.0) if rule.needs_smoothness else 1.0
        return factor * rule.size(step, q) / smoothness

    def _validated(self, state: WeightsState) -> WeightsState:
        """Look at the held-out data, and record what is there."""
        seen = self.objective.validate()
        loss, finite = seen["loss"], isfinite(seen["loss"])
        spent = self.spent(state)
        state = replace(
            state,
            ledger=state.ledger.monitor(),
            loss=loss if finite else state.loss,
            start_loss=loss if state.steps == 0 else state.start_loss,
            best_loss=min(state.best_loss, loss) if finite else state.best_loss,
            accuracy=seen.get("accuracy", nan),
            diverged=not finite and (state.steps == 0 or self.status(state) != RUNNING),
            validated=spent,
        )
        return state.recorded(spent)

    def continue_from(
        self, state: WeightsState, log: list[list[float]], *, log_is_whole: bool = True
    ) -> None:
        """Take the module's weights for those of a state that came with this log."""
        self._at = state.steps
        self.log, self.log_is_whole = log, log_is_whole

    def require_weights_of(self, state: WeightsState) -> None:
        """Refuse a state whose weights the module does not hold."""
        if self._at != state.steps:
            held = "between two steps" if self._at is None else f"at step {self._at}"
            raise ZotuneError(
                f"the module's weights are {held}, the state is at step {state.steps}; "
                "continue from the newest state, or load a checkpoint"
            )

    def _check(self) -> None:
        """Refuse what a descent on weights cannot do."""
        config, objective = self.config, self.objective
        if config.replicates != 1:
            raise ConfigError(
                f"the weights of a model are one row: replicates must be 1, "
                f"got {config.replicates}; use replicates_as: trials in the study"
            )
        require_possible(self.estimator, self.directions, config.q, objective.dim)
        _check_parameters(objective)

    @torch.no_grad()
    def _check_radius(self) -> None:
        """Refuse a mu that rounding swallows whole, by the first direction."""
        if self._moves(self.layout, self.block(0, 1, self.layout)):
            return
        raise ConfigError(
            f"mu must move the weights: with mu={self.mu:g} every weight + mu·u rounds to the "
            f"weight in {dtype_name(self.objective.dtype)}; raise mu, or leave it out"
        )

    def _moves(self, layout: Layout, block: TileBlock) -> bool:
        """Whether weights + mu·u differ from the weights anywhere, for any direction."""
        for query in range(block.q):
            for tile, pieces in zip(layout.tiles, layout.pieces, strict=True):
                u = block.look(range(query, query + 1), tile, keep=False)[0]
                for piece in pieces:
                    base = self.objective.trained[piece.name].view(-1)[piece.inside]
                    out = torch.empty_like(base)
                    moved = torch.add(base, u[piece.of_tile], alpha=self.mu, out=out)
                    if not torch.equal(moved, base):
                        return True
        return False

    def _check_smoothness(self) -> None:
        if self.rule.needs_smoothness and self.config.L is None:
            raise ConfigError(
                "step 'theory' needs the smoothness L, which is not estimated for the weights of "
                "a model; give L, or step='constant' with eta"
            )


def _check_parameters(objective: WeightsObjective) -> None:
    """Refuse trained parameters that overlap or differ in dtype; make them contiguous."""
    if not objective.trained:
        raise ObjectiveError(f"{objective.name} trains no parameter; name at least one")
    places: dict[int, str] = {}
    for name, parameter in objective.trained.items():
        if parameter.dtype != objective.dtype:
            raise ObjectiveError(
                f"trained parameters must share one dtype, got {parameter.dtype} for {name} "
                f"beside {objective.dtype}; cast the model"
            )
        parameter.data = parameter.data.contiguous()
        other = places.setdefault(parameter.data_ptr(), name)
        if other != name and parameter.numel():
            raise ObjectiveError(
                f"{name} and {other} share their memory; name a tied parameter once"
            )
