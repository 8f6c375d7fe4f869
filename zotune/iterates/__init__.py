"""Iterates hold x: as rows of a tensor (``Vectors``), or as weights of a module (``Weights``).

An iterate determines which points around x are evaluated, how x is moved, and how its loss is
observed without charge. It evaluates nothing itself: it makes a ``Request``, which an evaluator
answers in this process or elsewhere. The lanes of ``zotune.loop`` use it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from zotune.estimators import ESTIMATORS, Coefficients
from zotune.updates.motion import Motion

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from torch import Tensor

    from zotune.blocks import Block
    from zotune.config import Config
    from zotune.core.differences import Difference
    from zotune.core.state import LaneState
    from zotune.directions import Directions
    from zotune.iterates.box import Box
    from zotune.iterates.parts import Parts


SHORT = 1e-3
"""The first step of a line search changes x by this share of its norm."""


class Answer(NamedTuple):
    """The result of a request."""

    values: Tensor
    """(replicates, points), or (replicates,) for an uncharged loss."""
    gradient: Tensor | None = None
    """∇f at x, if it was computed with the values at no extra cost."""
    metrics: Mapping[str, Tensor] = {}
    """Further metrics of an uncharged evaluation, (replicates,) each."""
    outputs: Tensor | None = None
    """Residuals of each value, (replicates, points, m), if the function returns them."""


@dataclass(frozen=True)
class Request:
    """Something to be evaluated."""

    evaluate: Callable[[], Answer]
    """Evaluates the request in this process."""
    points: Callable[[], Tensor] | None = None
    """The points, (replicates, n, d), for ask/tell; None if the request is not a set of points."""
    charged: bool = True
    parts: Callable[[], Parts] | None = None
    """The request split into parts for parallel evaluation; None if it cannot be split."""


class Attempt(NamedTuple):
    """A trial step."""

    request: Request
    decrease: Callable[[], float]
    """gᵀΔ, the decrease that the estimate g predicts for a short step Δ."""


Result = TypeVar("Result")
Program = Generator[Request, Answer, Result]
"""A generator of the loop that yields requests, is sent their answers, and returns a result."""


WeightsReader = Callable[[bool], "dict[str, Tensor]"]
"""Returns trained parameters by name: the last ones, or the best ones if called with True."""


@dataclass(frozen=True)
class View:
    """The part of x that one step works on."""

    step: int
    dim: int
    """Dimension of the vector that the step moves."""
    payload: Any = field(default=None, repr=False)
    """Private data of the iterate."""


def motion_for(config: Config, directions: Directions, dim: int) -> Motion:
    """How estimates of a configuration move x."""
    estimator, q = ESTIMATORS[config.estimator], config.block_rule.next(0, None)
    spread = estimator.spread(directions, q, dim) if config.named_update.takes_spread else 1.0
    return Motion(config.named_update, estimator, config.momentum, spread=spread, dim=dim)


class Iterate(Protocol):
    """The interface between a lane and the storage of x.

    The default implementations are for an iterate without bounds that takes steps one by one and
    keeps everything that evolves in the state.
    """

    objective: Any
    replicates: int
    dim: int
    dtype: torch.dtype
    device: torch.device
    difference: Difference
    directions: Directions
    mu: float
    smoothness: float | None
    """L, if the objective knows it."""
    minimum: float | None
    gamma: float | None
    stochastic: bool
    pure: bool
    value_dtype: torch.dtype
    coefficient_dtype: torch.dtype
    """The dtype in which c is computed from v."""
    sees_loss: bool
    """Whether a step's first value is the loss at x."""
    charges_looks: bool
    """Whether looking at the loss is charged; curves are then made of values that were charged."""
    looks_on_grid: bool
    """Whether the loss is evaluated for every point of a curve, or only for reports."""
    evaluations_to_look: int = 1
    """What an uncharged look at the loss costs, in evaluations of a step."""
    takes_points: bool
    """Whether x can be set to any point, and f be evaluated at any point."""
    box: Box | None
    """Bounds for x and for all points that are evaluated."""

    begins_at: Tensor | None = None
    """The start of every replicate, (replicates, d); None if x is in a module."""

    def alone(self, config: Config, row: int) -> Iterate:
        """The iterate of one replicate, for a configuration with one replicate."""
        return self

    def use_radius(self, mu: float) -> None:
        """Take differences over another mu from now on."""

    def begin(self) -> dict[str, Any]:
        """The iterate's fields of a new state: x, best_x, average, slots, metrics."""

    def new_slots(self, names: Sequence[str]) -> dict[str, Tensor]:
        """Zero vectors for the slots of an update, if the state holds them."""
        return {}

    def require_at(self, state: LaneState) -> None:
        """Raise an error if the iterate no longer holds the x of this state."""
        return

    def view(self, step: int) -> View:
        """The part of x that a step works on."""

    def block(self, view: View, q: int) -> Block:
        """The first q directions of the step."""

    def probes(
        self,
        state: LaneState,
        view: View,
        block: Block,
        *,
        records: bool = False,
        center: bool = True,
    ) -> Request:
        """All evaluations of a step, without f(x) if ``center`` is false."""

    def along_bounds(self, state: LaneState, view: View, block: Block) -> Block:
        """The directions that are probed, where bounds change some of those that were drawn."""
        return block

    def tests_bounds(self, state: LaneState, view: View) -> bool:
        """Whether a step probes only coordinates at a bound."""
        return False

    def is_stuck(self, state: LaneState, block: Block, c: Tensor) -> bool:
        """Whether every move along an estimate would leave the bounds."""
        return False

    def explained(self, state: LaneState, view: View, block: Block) -> Tensor:
        """Uᵀm for the estimator's memory m, (replicates, q)."""

    def trial(self, state: LaneState, view: View, points: Tensor) -> Request:
        """f on the step's mini-batch at other points, (replicates, n, d)."""

    def walk(
        self,
        x: Tensor,
        steps: range,
        q: int,
        etas: Sequence[float],
        coefficients: Coefficients,
    ) -> tuple[Tensor, Tensor] | None:
        """x after several fused steps, and the values of the last; None: take them one by one."""
        return None

    def stay(self, steps: int) -> None:
        """Called if a step ends without moving x."""
        return

    def unmoved_by(self, state: LaneState, view: View, block: Block) -> Tensor:
        """Replicates for which x + mu·u rounds to x in every direction u, (replicates,)."""

    def points_at(self, state: LaneState, block: Block, columns: Tensor) -> Tensor:
        """For each replicate, the point whose value is in the given column."""
        return state.x

    def saw(self, state: LaneState, values: Tensor) -> LaneState:
        """The state updated with a step's values, before x is moved."""
        return state

    def look(self, state: LaneState) -> Request | None:
        """A request for the loss, charged or not; None if no replicate is running."""

    def observed(self, state: LaneState, gradient: Tensor | None) -> dict[str, Tensor]:
        """Further values of a curve point, beside loss, best loss and divergence."""

    def best_at(self, state: LaneState, better: Tensor) -> Tensor:
        """The best points, for replicates whose x has become the best one."""

    def recorded(self, state: LaneState) -> LaneState:
        """The state after a point of its curve has been recorded."""

    def gradient(self, state: LaneState) -> Tensor | None:
        """∇f at x for diagnostics; None if it is not known."""
        return None

    def unmoved(self, state: LaneState) -> Tensor:
        """The share of coordinates that mu·u does not move, ()."""

    def move(
        self, state: LaneState, view: View, block: Block, c: Tensor, eta: float, motion: Motion
    ) -> LaneState:
        """Apply the update to the estimate U·c and move x."""

    def attempt(
        self, state: LaneState, view: View, block: Block, c: Tensor, eta: float, motion: Motion
    ) -> Attempt:
        """f on the step's mini-batch at the point that ``move`` would give; x is not changed."""

    def short_step(
        self, state: LaneState, view: View, block: Block, c: Tensor, motion: Motion
    ) -> float:
        """The step size that changes x by about a thousandth of its size."""

    def rejected(self, state: LaneState, view: View) -> LaneState:
        """The state if no trial step was accepted: the slots of the update are reset."""

    def averaged(self, state: LaneState, weight: Callable[[], float]) -> LaneState:
        """The state with x added to its average, if an average is kept."""
        return state

    def fingerprint(self) -> dict[str, Any]:
        """Facts that must match to resume a checkpoint."""
        found: dict[str, Any] = self.objective.fingerprint()
        return found

    def start_error(self, loss: Tensor) -> str:
        """The error message for a start whose loss is not finite."""

    def tensors(self) -> dict[str, Tensor]:
        """Tensors that a checkpoint holds in addition to the state."""
        return {}

    def notes(self) -> dict[str, Any]:
        """JSON data that a checkpoint holds in addition to the state."""
        return {}

    def start_digest(self) -> str:
        """A short hash of the start, if a checkpoint does not hold the start itself."""
        return ""

    def weights_reader(self) -> WeightsReader | None:
        """A function that returns the trained parameters of a module; None if x is a vector."""
        return None

    def save_beside(self, path: Path) -> None:
        """Write files that accompany a checkpoint."""
        return

    def restore(self, state: LaneState, tensors: Mapping[str, Tensor], notes: Any) -> LaneState:
        """Restore x from a checkpoint, and return the state with it."""
        return state


def iterate_for(objective: object, config: Config, x0: Any = None) -> Iterate:
    """The iterate for an objective."""
    for kind in ("vectors", "weights"):
        import_module(f"{__name__}.{kind}")
    return iterate_of(objective, config, x0)


@singledispatch
def iterate_of(objective: object, config: Config, x0: Any = None) -> Iterate:
    """Dispatch on the objective's type; every kind of iterate registers its own constructor."""
    raise TypeError(
        f"{type(objective).__name__} is not an objective; wrap it with zotune.objective"
    )
