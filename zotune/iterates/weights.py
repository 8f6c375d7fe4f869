"""The iterate for the weights of a module: x stays in the module and is moved in place.

A step is a function of the weights, the configuration and the step's address. The state holds
everything else that evolves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zotune.addresses import replicate_keys
from zotune.blocks import Block
from zotune.config import ALL, FAST, Config
from zotune.core.differences import default_mu, get_difference
from zotune.core.names import SCALARS_FILE
from zotune.core.state import LaneState
from zotune.directions import DIRECTIONS
from zotune.errors import ConfigError, ZotuneError
from zotune.iterates import (
    SHORT,
    Answer,
    Attempt,
    Iterate,
    Request,
    View,
    WeightsReader,
    iterate_of,
    motion_for,
)
from zotune.iterates.box import Box
from zotune.iterates.parts import Parts, one_part
from zotune.objectives import dtype_name
from zotune.updates.motion import Motion
from zotune.weights.block import BlockCache, TileBlock
from zotune.weights.checks import check_trained, moves_weights
from zotune.weights.layout import Layout
from zotune.weights.lean import LeanProbe
from zotune.weights.memory import choose_memory, saying_what_to_lower
from zotune.weights.objective import Batch, WeightsObjective
from zotune.weights.probing import FastProbe, Probe
from zotune.weights.scalars import ScalarLog
from zotune.weights.updating import Updater, WeightsMove

WEIGHTS, BEST, SLOT = "weights.", "best.", "slot."
SMALL = 64 * 2**20
"""By default, a copy of the best weights is kept if it takes at most this many bytes."""
"""Metrics: number of mini-batches since the last curve point, and the sum of their losses."""


class Seen(NamedTuple):
    """The mini-batch of a step, and the layout of the vector that it moves."""

    batch: Batch
    layout: Layout


class Weights(Iterate):
    """x consists of the trained parameters of a module.

    Args:
        config: the checked configuration.
        objective: the module, its trained parameters and its loss.
    """

    looks_on_grid = False
    takes_points = False
    stochastic, pure, sees_loss, charges_looks = True, False, False, False
    smoothness: float | None = None
    minimum: float | None = None
    gamma: float | None = None
    replicates = 1
    box: Box | None = None
    value_dtype = coefficient_dtype = torch.float64

    def __init__(self, config: Config, objective: WeightsObjective) -> None:
        self.config = config
        self.objective = objective
        self.dim, self.dtype = objective.dim, objective.dtype
        self.device = torch.device("cpu")
        """Device of losses, coefficients and state; the weights stay on the objective's device."""
        self.directions = DIRECTIONS[config.directions]
        self.evaluations_to_look = objective.evaluations_to_validate
        self.difference = get_difference(config.difference)
        self.mu = config.mu or default_mu(objective.dtype, config.difference)
        self._check()
        keys = replicate_keys("directions", config.seed, config.replicate_indices)
        self.batch_keys = replicate_keys("batches", config.seed, config.replicate_indices)
        self.memory = choose_memory(config, objective)
        """``fast`` or ``lean``."""
        probe = FastProbe if self.memory == FAST else LeanProbe
        rounding = replicate_keys("rounding", config.seed, config.replicate_indices)
        may_keep = config.block_bytes if self.memory == FAST else 0
        with saying_what_to_lower(config):
            self._cache = BlockCache(
                self.directions,
                keys,
                objective.device,
                dim=objective.dim,
                q=config.block_rule.most,
                may_keep=may_keep,
            )
            self.probe: Probe = probe(objective, self.mu)
            motion = motion_for(config, self.directions, objective.dim)
            self.updater = Updater(objective.trained, self._cache.width, rounding, motion.slots)
        self.layout = Layout.of_all(objective.trained, self._cache.width)
        """The layout of all trained parameters."""
        self._check_radius()
        self.log: list[list[float]] = []
        """For each step, the factors a of its update Σ aᵢ uᵢ."""
        self._spread = motion.spread
        self.log_is_whole = not motion.remembers
        """Whether the directions and the update have been the same for the whole log."""
        self._best: dict[str, Tensor] | None = {} if self._keeps_best() else None
        """Copy of the weights with the lowest validation loss, on the CPU; None: not kept."""
        self._at: int | None = None
        """The step whose weights the module holds; None before the start and during an update."""

    def use_radius(self, mu: float) -> None:
        """Take differences over another mu from now on."""
        self.mu = self.probe.mu = mu

    def begin(self) -> dict[str, Any]:
        """Start at the module's current weights."""
        if self._at is not None:
            raise ZotuneError("this loop has begun already; build the objective and a loop anew")
        self._at = 0
        nowhere = torch.zeros(1, 0)
        unknown = torch.full((1,), torch.nan, dtype=torch.float64)
        metrics = dict.fromkeys(("accuracy", "train_loss", "unmoved"), unknown)
        return {"x": nowhere, "best_x": nowhere, "average": nowhere, "metrics": metrics}

    def require_at(self, state: LaneState) -> None:
        """Raise an error if the module does not hold the weights of this state."""
        if self._at != state.steps:
            held = "between two steps" if self._at is None else f"at step {self._at}"
            raise ZotuneError(
                f"the module's weights are {held}, the state is at step {state.steps}; "
                "continue from the newest state, or load a checkpoint"
            )

    def view(self, step: int) -> View:
        """The step's mini-batch, and the layout of the weights that it uses."""
        batch = self.objective.batch(self.batch_keys, step)
        layout = self.layout_of(batch)
        return View(step, layout.dim, Seen(batch, layout))

    def layout_of(self, batch: Batch) -> Layout:
        """The layout of a step: embedding rows in its mini-batch only, or all of them if set so."""
        if self.config.embedding_rows == ALL:
            return self.layout
        return self.layout.seen(self.objective.touched(batch))

    def block(self, view: View, q: int) -> TileBlock:
        """The first q directions of the step."""
        if self.directions.orthogonal and q > view.dim:
            raise ConfigError(
                f"q must be at most the dimension for directions {self.directions.name!r}, got "
                f"q={q} where a mini-batch sees {view.dim} weights; lower q, or set "
                "embedding_rows='all'"
            )
        return self._cache.block(view.step, q, view.dim)

    def probes(
        self,
        state: LaneState,
        view: View,
        block: Block,
        *,
        records: bool = False,
        center: bool = True,
    ) -> Request:
        """The losses of the mini-batch around the weights, which are only read."""
        assert isinstance(block, TileBlock)  # for the type checker

        def evaluate() -> Answer:
            with saying_what_to_lower(self.config):
                values = self.probe.values(
                    view.payload.batch, view.payload.layout, block, self.difference
                )
            return Answer(values)

        return Request(evaluate, parts=lambda: self._parts(view, block))

    def _parts(self, view: View, block: TileBlock) -> Parts:
        """A step's losses, one per part."""
        n = self.difference.evaluations(block.q)
        begun = False

        def evaluate(part: int) -> Answer:
            nonlocal begun
            with saying_what_to_lower(self.config):
                if not begun:
                    self.probe.begin(view.payload.batch, view.payload.layout)
                    begun = True
                loss = self.probe.column(view.payload.batch, block, self.difference, part)
            return Answer(_number(loss))

        def join(answers: Sequence[Answer]) -> Answer:
            return Answer(torch.stack([a.values for a in answers], -1).to(self.device))

        return Parts(n, evaluate, join)

    def explained(self, state: LaneState, view: View, block: Block) -> Tensor:
        """Uᵀm, (1, q)."""
        assert isinstance(block, TileBlock)  # for the type checker
        return self.updater.project(view.payload.layout, block)

    def trial(self, state: LaneState, view: View, points: Tensor) -> Request:
        """Not possible: a model can only be evaluated along the directions of a step."""
        raise ZotuneError("the loss of a model's weights cannot be asked for at points")

    def unmoved_by(self, state: LaneState, view: View, block: Block) -> Tensor:
        """Whether weights + mu·u round to the weights in every direction u."""
        assert isinstance(block, TileBlock)  # for the type checker
        return torch.tensor(
            [not moves_weights(self.objective.trained, self.mu, view.payload.layout, block)]
        )

    def saw(self, state: LaneState, values: Tensor) -> LaneState:
        """The state with the mini-batch's loss added to those since the last curve point."""
        if state.lost:
            return state
        center = values[:, :1] if self.difference.knows_center else values
        losses = state.batch_losses + float(center.mean())
        return state.but(batches=state.batches + 1, batch_losses=losses)

    def look(self, state: LaneState) -> Request | None:
        """The loss and the metrics on the validation data."""
        if state.lost:
            return None
        return Request(self._validated, charged=False, parts=lambda: one_part(self._validated))

    def _validated(self) -> Answer:
        seen = {name: _number(value) for name, value in self.objective.validate().items()}
        return Answer(seen.pop("loss"), metrics=seen)

    def observed(self, state: LaneState, gradient: Tensor | None) -> dict[str, Tensor]:
        """The last metrics, and the mean mini-batch loss since the last curve point."""
        return {**state.metrics, "train_loss": self._train_loss(state)}

    def best_at(self, state: LaneState, better: Tensor) -> Tensor:
        """Copy the weights if they are the best so far; the state holds no weights."""
        if self._best is not None and bool(better.all()):
            self._best = {
                name: p.detach().to("cpu", copy=True) for name, p in self.objective.trained.items()
            }
        return state.best_x

    def _keeps_best(self) -> bool:
        if self.config.keep_best is not None:
            return self.config.keep_best
        return sum(p.numel() * p.element_size() for p in self.objective.trained.values()) <= SMALL

    def recorded(self, state: LaneState) -> LaneState:
        """Reset the count of mini-batches and the sum of their losses."""
        metrics = {**state.metrics, "train_loss": self._train_loss(state)}
        return state.but(metrics=metrics, batches=0, batch_losses=0.0)

    def _train_loss(self, state: LaneState) -> Tensor:
        if not state.batches:
            return state.metrics["train_loss"]
        return _number(state.batch_losses / state.batches)

    def unmoved(self, state: LaneState) -> Tensor:
        """The share of weights that rounding left unchanged, counted by the last move."""
        return state.metrics["unmoved"][0]

    def move(
        self, state: LaneState, view: View, block: Block, c: Tensor, eta: float, motion: Motion
    ) -> LaneState:
        """Move the weights; after a report, also count those that rounding leaves unchanged."""
        looks = len(state.curve) and state.curve[-1].steps == view.step
        move = _move(view, block, c, eta, motion)
        self._at = None
        still = self.updater.move(move, radius=self.mu if looks else None)
        self._at = view.step + 1
        self.log.append([*([] if motion.linear else [eta]), *move.a])
        if still is None:
            return state
        return state.but(metrics={**state.metrics, "unmoved": _number(still)})

    def attempt(
        self, state: LaneState, view: View, block: Block, c: Tensor, eta: float, motion: Motion
    ) -> Attempt:
        """The mini-batch loss at the weights that ``move`` would give; weights are only read."""
        move, batch = _move(view, block, c, eta, motion), view.payload.batch

        def evaluate() -> Answer:
            with saying_what_to_lower(self.config):
                shift = self.updater.shift(move)
                return Answer(self.probe.value(batch, move.layout, shift).to(self.device))

        def decrease() -> float:
            a = c[0].double().tolist()
            return self.updater.decrease(move._replace(a=a, motion=motion, eta=eta))

        return Attempt(Request(evaluate, parts=lambda: one_part(evaluate)), decrease)

    def short_step(
        self, state: LaneState, view: View, block: Block, c: Tensor, motion: Motion
    ) -> float:
        """The step size that changes the weights by about a thousandth of their norm."""
        squares = [
            float(p.detach().double().square().sum()) for p in self.objective.trained.values()
        ]
        length = float(c.double().square().sum()) ** 0.5 if motion.linear else 1.0
        return float(SHORT * sum(squares) ** 0.5 / max(length * view.dim**0.5, 1e-300))

    def rejected(self, state: LaneState, view: View) -> LaneState:
        """Keep the weights, and reset the slots of the update."""
        self._at = None
        self.updater.clear()
        self.log.append([])
        self._at = view.step + 1
        return state

    def stay(self, steps: int) -> None:
        """Note that the step has ended without a move."""
        self._at = steps

    def start_error(self, loss: Tensor) -> str:
        """The error message for a start whose loss is not finite."""
        return (
            f"the validation loss must be finite at the start, got {float(loss)}; "
            "look at the model and its data"
        )

    def tensors(self) -> dict[str, Tensor]:
        """Weights, slots and the scalar log."""
        weights = {WEIGHTS + name: p.data for name, p in self.objective.trained.items()}
        slots = {SLOT + name: slot for name, slot in self.updater.slots.items()}
        factors = torch.tensor([a for step in self.log for a in step], dtype=torch.float64)
        sizes = torch.tensor([len(step) for step in self.log], dtype=torch.int64)
        best = {BEST + name: weight for name, weight in (self._best or {}).items()}
        return weights | best | slots | {"log.factors": factors, "log.sizes": sizes}

    def notes(self) -> dict[str, Any]:
        """Whether the scalar log describes all changes of the weights."""
        return {"log_is_whole": self.log_is_whole}

    def weights_reader(self) -> WeightsReader:
        """A function that copies the trained parameters of the module, or the best ones."""

        def read(best: bool) -> dict[str, Tensor]:
            found = (self._best or {}) if best else self.objective.trained
            return {name: weight.detach().clone() for name, weight in found.items()}

        return read

    def save_beside(self, path: Path) -> None:
        """Write the scalar log as a readable file."""
        if self.log_is_whole:
            self.scalars().save(path.with_name(SCALARS_FILE))

    def scalars(self) -> ScalarLog:
        """The log so far."""
        config = self.config
        return ScalarLog(
            seed=config.seed,
            replicate=config.replicate,
            directions=config.directions,
            embedding_rows=config.embedding_rows,
            update=config.named_update.name,
            momentum=config.momentum,
            spread=self._spread,
            dim=self.dim,
            dtype=dtype_name(self.dtype),
            device=self.objective.device.type,
            factors=self.log,
        )

    def restore(self, state: LaneState, tensors: Mapping[str, Tensor], notes: Any) -> LaneState:
        """Load a checkpoint's weights into the module, and its scalar log."""
        for name, parameter in self.objective.trained.items():
            parameter.data.copy_(tensors[WEIGHTS + name])
        for name, slot in self.updater.slots.items():
            if len(tensors.get(SLOT + name, ())) == len(slot):
                slot.copy_(tensors[SLOT + name])
        if self._best is not None:
            named = [name for name in tensors if name.startswith(BEST)]
            self._best = {name.removeprefix(BEST): tensors[name].to("cpu") for name in named}
        sizes = tensors["log.sizes"].tolist()
        self.log = [part.tolist() for part in torch.split(tensors["log.factors"], sizes)]
        self.log_is_whole = notes["log_is_whole"] and same_draws(self.config, notes["config"])
        self._at = state.steps
        return state

    def _check(self) -> None:
        """Raise an error for settings that are not supported for weights."""
        if self.config.replicates != 1:
            raise ConfigError(
                f"the weights of a model are one row: replicates must be 1, "
                f"got {self.config.replicates}; use replicates_as: trials in the study"
            )
        if self.config.bounds is not None:
            raise ConfigError(
                "bounds are for vectors, and these are weights of a model; leave them out"
            )
        check_trained(self.objective)

    @torch.no_grad()
    def _check_radius(self) -> None:
        """Raise an error if weights + mu·u round to the weights everywhere (first direction)."""
        first = self._cache.block(0, 1, self.dim)
        if not moves_weights(self.objective.trained, self.mu, self.layout, first):
            raise ConfigError(
                f"mu must move the weights: with mu={self.mu:g} every weight + mu·u rounds to the "
                f"weight in {dtype_name(self.dtype)}; raise mu, or leave it out"
            )


@iterate_of.register
def _(objective: WeightsObjective, config: Config, x0: Any = None) -> Weights:
    if x0 is not None:
        raise ConfigError("a model starts at the weights that it has, got x0; leave it out")
    return Weights(config, objective)


def _move(view: View, block: Block, c: Tensor, eta: float, motion: Motion) -> WeightsMove:
    """The move of a step; eta is multiplied into the factors if the update allows that."""
    assert isinstance(block, TileBlock)  # for the type checker
    c = c[0].double()
    a: list[float] = ((eta * c) if motion.linear else c).tolist()
    return WeightsMove(
        view.payload.layout,
        block,
        view.step,
        a,
        motion=None if motion.plain else motion,
        eta=1.0 if motion.linear else eta,
    )


def same_draws(config: Config, saved: Mapping[str, Any]) -> bool:
    """Whether the same factors move the weights in the same way under both configurations."""
    keys = ["seed", "replicate", "directions", "embedding_rows", "update", "momentum"]
    keys += ["estimator", "q"] if config.named_update.takes_spread else []
    return all(getattr(config, key) == saved.get(key, getattr(config, key)) for key in keys)


def _number(value: float) -> Tensor:
    """A tensor with the number of one replicate."""
    return torch.tensor([value], dtype=torch.float64)
