"""The iterate for vectors: replicates are rows of one tensor and are evaluated as a batch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.config import Config
from zotune.core.state import LaneState
from zotune.errors import ConfigError
from zotune.estimators import ESTIMATORS, Coefficients
from zotune.iterates import SHORT, Answer, Attempt, Iterate, Request, View, iterate_of
from zotune.iterates.parts import Parts, Region, answer_at, cut, one_part, parts_of_values
from zotune.iterates.probing import Prober
from zotune.objectives import Objective, dtype_name
from zotune.updates.motion import REMEMBERED, Motion

TEST_EVERY = 4
"""One step in this many probes only the coordinates at a bound, if q < d."""


class Vectors(Iterate):
    """x is a tensor (replicates, d) in the state.

    Args:
        config: the checked configuration.
        objective: the function to minimise.
        x0: the start, (d,) or (replicates, d); default: the objective's start.
    """

    looks_on_grid = True
    takes_points = True

    def __init__(self, config: Config, objective: Objective, x0: Any = None) -> None:
        config.refuse_settings_for_weights()
        self.objective = objective
        self.replicates = config.replicates
        self.dim, self.dtype, self.device = objective.dim, objective.dtype, objective.device
        self.minimum, self.gamma = objective.minimum, objective.gamma
        self.stochastic, self.pure = objective.stochastic, objective.pure
        self.charges_looks = objective.charges_looks
        self.coefficient_dtype, self.value_dtype = objective.dtype, objective.value_dtype
        self.prober = Prober(config, objective)
        self.difference, self.directions = self.prober.difference, self.prober.directions
        self.mu = self.prober.mu
        self.sees_loss = self.difference.knows_center and not objective.stochastic
        self.box = None if config.replays else self.prober.box
        """The bounds of the steps; None for methods that yield points, which are inside them."""
        self._exact = not config.replays and ESTIMATORS[config.estimator].exact
        if self.box is not None and not self.prober.holds(config.block_rule.most):
            raise ConfigError(
                "bounds need blocks of directions that fit in memory, and q="
                f"{config.block_rule.most} is more than block_bytes={config.block_bytes} hold; "
                "raise block_bytes, or lower q"
            )
        self.begins_at: Tensor = self._checked_start(objective.start() if x0 is None else x0)
        if not config.replays:
            self._check_radius()

    @property
    def smoothness(self) -> float | None:  # type: ignore[override]
        """L, if the objective knows it; some objectives compute it on first access."""
        return self.objective.L

    def alone(self, config: Config, row: int) -> Vectors:
        """The iterate of one replicate."""
        return Vectors(config, self.objective, self.begins_at[row])

    def use_radius(self, mu: float) -> None:
        """Take differences over another mu from now on."""
        self.mu = mu
        self.prober.use_radius(mu)

    def begin(self) -> dict[str, Any]:
        """x at the start, and an average of the iterates if the objective is stochastic."""
        x = self.begins_at.clone()
        average = torch.zeros_like(x if self.stochastic else x[:, :0])
        return {"x": x, "best_x": x, "average": average}

    def new_slots(self, names: Sequence[str]) -> dict[str, Tensor]:
        """Zero vectors for the slots of an update."""
        return {name: torch.zeros_like(self.begins_at) for name in names}

    def view(self, step: int) -> View:
        """All of x."""
        return View(step, self.dim)

    def block(self, view: View, q: int) -> Block:
        """The first q directions of the step; the next block overwrites a dense one."""
        return self.prober.block(view.step, q)

    def probes(
        self,
        state: LaneState,
        view: View,
        block: Block,
        *,
        records: bool = False,
        center: bool = True,
    ) -> Request:
        """The values around x, with ∇f if the curve records this step."""
        alive = ~state.diverged if state.lost else None

        def points() -> Tensor:
            return self.prober.points(state.x, block, center=center)

        def evaluate() -> Answer:
            if not center:
                return Answer(self.prober.sample(points(), view.step, alive))
            if records:
                values, gradient = self.prober.values_and_gradient(state.x, view.step, block, alive)
                return Answer(values, gradient)
            return Answer(self.prober.values(state.x, view.step, block, alive))

        first = 0 if center else self.difference.per_step

        def parts() -> Parts:
            columns = self.difference.evaluations(block.q) - first
            return self._parts(
                state,
                columns,
                view.step,
                lambda at: self.prober.some_points(state.x, block, at.shifted(first)),
            )

        return Request(evaluate, points, parts=parts)

    def along_bounds(self, state: LaneState, view: View, block: Block) -> Block:
        """The directions that are probed, changed where points would be outside the bounds.

        The slope along a coordinate at a bound does not vanish at the minimum. In a small block it
        would add noise to the estimates of the other coordinates, so coordinates at a bound are
        left out. One step in ``TEST_EVERY`` probes only these, to see whether f falls inwards.
        """
        if self.box is None or (self._exact and block.q >= self.dim):
            return self.prober.along_bounds(state.x, block)
        held = self.box.holds(state.x)
        still = ~held if self.tests_bounds(state, view) else held
        none_left = still.all(-1, keepdim=True)
        return self.prober.along_bounds(state.x, block, still & ~none_left)

    def tests_bounds(self, state: LaneState, view: View) -> bool:
        """Whether a step probes only coordinates at a bound."""
        if self.box is None or (view.step + 1) % TEST_EVERY:
            return False
        held = self.box.holds(state.x)
        return bool((held.any(-1) & ~held.all(-1)).any())

    def is_stuck(self, state: LaneState, block: Block, c: Tensor) -> bool:
        """Whether every move along an estimate would leave the bounds."""
        if self.box is None:
            return False
        return not bool(self.box.without_outward(state.x, block.combine(c)).any())

    def explained(self, state: LaneState, view: View, block: Block) -> Tensor:
        """Uᵀm, (replicates, q)."""
        return block.project(state.slots[REMEMBERED])

    def trial(self, state: LaneState, view: View, points: Tensor) -> Request:
        """f on the step's mini-batch at other points, (replicates, n, d)."""

        def parts() -> Parts:
            return self._parts(
                state,
                points.shape[1],
                view.step,
                lambda at: points[at.rows, at.columns.start : at.columns.stop],
                every=True,
            )

        if self.objective.residuals:
            return self._of_residuals(points, parts)
        return Request(
            lambda: Answer(self.prober.sample(points, view.step)), lambda: points, parts=parts
        )

    def _of_residuals(self, points: Tensor, parts: Callable[[], Parts]) -> Request:
        """The same, with the residuals of every point."""

        def evaluate() -> Answer:
            found = answer_at(self.objective, points.flatten(0, 1))
            assert found.outputs is not None  # the objective has residuals
            outputs = found.outputs.view(*points.shape[:2], -1)
            return Answer(found.values.view(points.shape[:2]), outputs=outputs)

        def with_outputs() -> Parts:
            whole, one = parts(), self.objective
            return replace(whole, evaluate=lambda part: answer_at(one, _points_of(whole, part)))

        return Request(evaluate, lambda: points, parts=with_outputs)

    def _parts(
        self,
        state: LaneState,
        columns: int,
        step: int,
        points: Callable[[Region], Tensor],
        *,
        every: bool = False,
    ) -> Parts:
        """A request for points of a step, in parts; of running replicates, or of all."""
        runs = range(self.replicates) if every or not state.lost else _running(state)
        places = cut(runs, columns, self.objective.points_per_call)

        def values(at: Region, points: Tensor) -> Tensor:
            return self.objective.sample(self.prober.batch_keys[at.rows], step)(points)

        return parts_of_values(places, (self.replicates, columns), points, values)

    def walk(
        self, x: Tensor, steps: range, q: int, etas: Sequence[float], coefficients: Coefficients
    ) -> tuple[Tensor, Tensor] | None:
        """x after several fused steps, and the values of the last of them.

        All values are checked once, at the end. Returns None if a value is not finite, or if all
        values of a step are equal (x + mu·u may round to x); the steps are then taken one by one.
        """
        if self.box is not None:
            return None
        walk, seen = self.prober.walk(x, q), list[Tensor]()
        for step, eta in zip(steps, etas, strict=True):
            block, values = walk.look(step)
            seen.append(values)
            block.move_(walk.x, coefficients(self.difference.quotient(values, self.mu), block), eta)
        every = torch.cat(seen)
        if not finite(every) or some_are_equal(every):
            return None
        return walk.x.clone(memory_format=torch.contiguous_format), seen[-1]

    def unmoved_by(self, state: LaneState, view: View, block: Block) -> Tensor:
        """Replicates for which x + mu·u rounds to x in every direction u."""
        return self.prober.unmoved_by(block, state.x)

    def points_at(self, state: LaneState, block: Block, columns: Tensor) -> Tensor:
        """For each replicate, the point whose value is in the given column."""
        return self.prober.points_at(state.x, block, columns)

    def look(self, state: LaneState) -> Request | None:
        """The loss of running replicates; on the full data if f is stochastic."""
        alive = ~state.diverged
        if not bool(alive.any()):
            return None
        if not self.stochastic:
            charged = self.charges_looks

            def evaluate() -> Answer:
                losses = self._losses(state, alive)
                return Answer(losses[:, None] if charged else losses)

            parts = partial(self._look_in_parts, state)
            return Request(evaluate, lambda: state.x[:, None], charged, parts)
        both = partial(self._look_at_both, state, alive)
        return Request(both, charged=False, parts=lambda: one_part(both))

    def _look_in_parts(self, state: LaneState) -> Parts:
        """The loss of running replicates, split into parts of whole replicates."""
        return parts_of_values(
            cut(_running(state), 1, self.objective.points_per_call),
            (self.replicates, 1),
            lambda at: state.x[at.rows, None],
            lambda at, points: self.losses(points[:, 0])[:, None],
            looks=not self.charges_looks,
        )

    def observed(self, state: LaneState, gradient: Tensor | None) -> dict[str, Tensor]:
        """The objective's metrics, ‖∇f‖² if ∇f is known, and the loss of the average."""
        seen = self.objective.measured(state.x)
        gradient = self.objective.gradient(state.x) if gradient is None else gradient
        if gradient is not None:
            seen["grad_norm2"] = gradient.square().sum(-1)
        if self.stochastic:
            known = state.metrics.get("average_loss")
            seen["average_loss"] = self._average_loss(state) if known is None else known
        return seen

    def best_at(self, state: LaneState, better: Tensor) -> Tensor:
        """x for replicates that have improved on their best loss, the old best point for others."""
        if bool(better.all()):
            return state.x
        return torch.where(better[:, None], state.x, state.best_x)

    def recorded(self, state: LaneState) -> LaneState:
        """Drop the metrics, which are of the recorded point only."""
        return state.but(metrics={}) if state.metrics else state

    def gradient(self, state: LaneState) -> Tensor | None:
        """∇f at x, if the objective knows it."""
        return self.objective.gradient(state.x)

    def unmoved(self, state: LaneState) -> Tensor:
        """The share of coordinates with u ≠ 0 for which x + mu·u rounds to x."""
        return self.prober.unmoved(state.x, state.steps)

    def move(
        self, state: LaneState, view: View, block: Block, c: Tensor, eta: float, motion: Motion
    ) -> LaneState:
        """x ← x − η U c in one operation for plain SGD; else apply the update to U c."""
        x = state.x.clone()
        if motion.plain and self.box is None:
            block.move_(x, c, eta)
            return state.but(x=x)
        change, slots, _ = self._change(state, view, block, c, eta, motion)
        return state.but(x=self._inside(x.sub_(change)), slots=slots)

    def attempt(
        self, state: LaneState, view: View, block: Block, c: Tensor, eta: float, motion: Motion
    ) -> Attempt:
        """f at the point that ``move`` would give."""
        change, _, estimate = self._change(state, view, block, c, eta, motion)
        if motion.plain:
            point = self.move(state, view, block, c, eta, motion).x
        else:
            point = self._inside(state.x - change)
        if self.box is not None:
            change = state.x - point
        request = self.trial(state, view, point.unsqueeze(1))
        return Attempt(request, lambda: float((estimate * change).sum()))

    def short_step(
        self, state: LaneState, view: View, block: Block, c: Tensor, motion: Motion
    ) -> float:
        """The step size that changes x by a thousandth of max(‖x‖, √d)."""
        change, *_ = self._change(state, view, block, c, 1.0, motion)
        size: float = max(float(state.x.norm()), self.dim**0.5)
        return SHORT * size / max(float(change.norm()), 1e-300)

    def rejected(self, state: LaneState, view: View) -> LaneState:
        """The state with the update's slots reset to zero; the estimator's memory is kept."""
        cleared = {name: torch.zeros_like(slot) for name, slot in state.slots.items()}
        kept = {name: state.slots[name] for name in (REMEMBERED,) if name in state.slots}
        return state.but(slots=cleared | kept)

    def _change(
        self, state: LaneState, view: View, block: Block, c: Tensor, eta: float, motion: Motion
    ) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """The vector that a move subtracts from x, the slots after the move, and the estimate."""
        along = block.combine(c)
        if self.box is not None:
            along = self.box.without_outward(state.x, along)
        slots = {name: slot.clone() for name, slot in state.slots.items()}
        estimate, weights = motion.estimate(along, slots), None
        if motion.weigh is not None:
            vectors = torch.stack([v.double() for v in motion.basis(along, slots)])
            grams = torch.einsum("ird,jrd->rij", vectors, vectors)
            weights = torch.stack([motion.weigh(gram, view.step) for gram in grams]).unsqueeze(1)
        return motion(along, slots, eta, view.step, weights), slots, estimate

    def averaged(self, state: LaneState, weight: Callable[[], float]) -> LaneState:
        """The state with x added to the weighted sum of x_0 … x_t, if f is stochastic."""
        if not self.stochastic:
            return state
        w = weight()
        return state.but(
            average=state.average + w * state.x, average_weight=state.average_weight + w
        )

    def start_error(self, loss: Tensor) -> str:
        """The error message for a start whose loss is not finite."""
        failure = getattr(self.objective, "failure", "")
        raised = failure and bool(loss.isinf().any())  # NaN: the function has returned it
        got = f"it raised {failure}" if raised else f"got {loss.tolist()}"
        return f"the objective must be finite at the start point, {got}; choose another x0"

    def start_digest(self) -> str:
        """A hash of the start of all replicates."""
        return hashlib.sha256(self.begins_at.cpu().numpy().tobytes()).hexdigest()[:16]

    def losses(self, x: Tensor) -> Tensor:
        """The loss that curves show."""
        return self.objective.values(x if self.pure else x.clone())

    def _losses(self, state: LaneState, alive: Tensor) -> Tensor:
        """The loss of running replicates, NaN for the others."""
        if not state.lost:
            return self.losses(state.x)
        loss = torch.full_like(state.loss, torch.nan)
        loss[alive] = self.losses(state.x[alive])
        return loss

    def _look_at_both(self, state: LaneState, alive: Tensor) -> Answer:
        """Losses of x and of the averages, and ∇f, in one pass over the data."""
        if state.lost:
            average = {"average_loss": self._average_loss(state)}
            return Answer(self._losses(state, alive), metrics=average)
        points = torch.stack([state.x, self._average(state)], 1)
        values, gradient = self.objective.values_and_gradient(points)
        return Answer(values[:, 0], gradient, {"average_loss": values[:, 1]})

    def _average_loss(self, state: LaneState) -> Tensor:
        return self.losses(self._average(state))

    def _average(self, state: LaneState) -> Tensor:
        """The weighted average of the previous iterates; at the first step, the start."""
        if not state.average_weight:
            return state.x
        return self._inside(state.average / state.average_weight)

    def _checked_start(self, x0: Any) -> Tensor:
        """The start of every replicate; raises an error if x0 is invalid."""
        r, d = self.replicates, self.dim
        start = torch.as_tensor(x0, dtype=self.dtype, device=self.device).detach()
        if start.shape not in ((d,), (r, d)):
            raise ConfigError(
                f"x0 must have shape ({d},) or ({r}, {d}), got {tuple(start.shape)}; "
                "it holds one coordinate for each dimension of the objective"
            )
        if not bool(start.isfinite().all()):
            raise ConfigError("x0 must be finite, got NaN or infinity in it; choose another start")
        return self._inside(start.expand(r, d).clone(memory_format=torch.contiguous_format))

    def _inside(self, points: Tensor) -> Tensor:
        """Move points inside the bounds, in place."""
        return points if self.box is None else self.box.clamp_(points)

    def _check_radius(self) -> None:
        """Raise an error if mu is so small that x + mu·u rounds to x everywhere."""
        if float(self.prober.unmoved(self.begins_at, 0)) == 1:
            raise ConfigError(
                f"mu must move the point: with mu={self.mu:g} every x + mu·u rounds to x "
                f"in {dtype_name(self.dtype)}; raise mu, or leave it out for the default"
            )


@iterate_of.register
def _(objective: Objective, config: Config, x0: Any = None) -> Vectors:
    return Vectors(config, objective, x0)


def _running(state: LaneState) -> list[int]:
    """Indices of replicates that have not diverged."""
    rows: list[int] = (~state.diverged).nonzero().flatten().tolist()
    return rows


def _points_of(parts: Parts, part: int) -> Tensor:
    """The points of a part, (n, d)."""
    assert parts.points is not None  # it asks for values at points
    return parts.points(part)


def some_are_equal(values: Tensor) -> bool:
    """Whether all values of some row are equal."""
    return bool((values[:, 1:] == values[:, :1]).all(-1).any())


def finite(values: Tensor) -> bool:
    """Whether all values are finite, tested by one sum."""
    return isfinite(values.sum().item())
