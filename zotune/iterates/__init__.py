"""Where x lives: rows of a tensor, or the weights of a module. One loop moves either.

An iterate knows what is evaluated around x, how x is moved, and how it is looked at without charge.
It evaluates nothing by itself: it makes a ``Request``, and whoever drives the loop answers it, in
this process or elsewhere.
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
"""A first step, before anything is known of f, changes x by this share of its size."""


class Answer(NamedTuple):
    """What came of a request."""

    values: Tensor
    """(replicates, points), or (replicates,) of a look."""
    gradient: Tensor | None = None
    """∇f at x, where it came with the values for nothing."""
    metrics: Mapping[str, Tensor] = {}
    """What else a look has seen, (replicates,) each."""


@dataclass(frozen=True)
class Request:
    """Something to be evaluated."""

    evaluate: Callable[[], Answer]
    """Does it in this process."""
    points: Callable[[], Tensor] | None = None
    """The points, (replicates, n, d), for evaluators elsewhere; None where they cannot be told."""
    charged: bool = True
    parts: Callable[[], Parts] | None = None
    """The request in parts that can be evaluated apart; None: it is one."""


class Attempt(NamedTuple):
    """A step that is tried before it is taken."""

    request: Request
    decrease: Callable[[], float]
    """gᵀΔ, the decrease that the estimate predicts for a short step Δ."""


Result = TypeVar("Result")
Program = Generator[Request, Answer, Result]
"""A part of the loop: it asks for evaluations and ends with a result."""


WeightsReader = Callable[[bool], "dict[str, Tensor]"]
"""Gives trained parameters by name: the last, or the best if that is asked for."""


@dataclass(frozen=True)
class View:
    """What one step sees of x."""

    step: int
    dim: int
    """Of the vector that the step moves."""
    payload: Any = field(default=None, repr=False)
    """The iterate's own."""


def motion_for(config: Config, directions: Directions, dim: int) -> Motion:
    """How estimates of a configuration move x."""
    estimator, q = ESTIMATORS[config.estimator], config.block_rule.next(0, None)
    spread = estimator.spread(directions, q, dim) if config.named_update.takes_spread else 1.0
    return Motion(config.named_update, estimator, config.momentum, spread=spread, dim=dim)


class Iterate(Protocol):
    """The thing that knows where x lives.

    What has a body is what an iterate does unless it says otherwise: it has no bounds, takes steps
    one by one, and all that evolves of it is in the state.
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
    """L, where the objective knows it."""
    minimum: float | None
    gamma: float | None
    stochastic: bool
    pure: bool
    value_dtype: torch.dtype
    coefficient_dtype: torch.dtype
    """In which v becomes c."""
    sees_loss: bool
    """Whether a step's first value is the loss itself, so that looking is free."""
    looks_on_grid: bool
    """Whether the loss is looked at for every point of a curve, or only for reports."""
    takes_points: bool
    """Whether x can be put at any point, and f be asked for there."""
    box: Box | None
    """Bounds that points and probes keep to."""

    def alone(self, config: Config, row: int) -> Iterate:
        """The iterate of one replicate, under a configuration that has no other."""
        return self

    def begin(self) -> dict[str, Any]:
        """The fields of a state that are the iterate's: x, best_x, average, slots, metrics."""

    def new_slots(self, names: Sequence[str]) -> dict[str, Tensor]:
        """Vectors for an update, at zero, where they are part of the state."""
        return {}

    def require_at(self, state: LaneState) -> None:
        """Refuse a state whose x is no longer there."""
        return

    def view(self, step: int) -> View:
        """What a step sees."""

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
        """All evaluations of a step; without f(x) where that is known already."""

    def along_bounds(self, state: LaneState, view: View, block: Block) -> Block:
        """The directions of a step as they were probed, where bounds have bent some of them."""
        return block

    def tests_bounds(self, state: LaneState, view: View) -> bool:
        """Whether a step probes only coordinates at a bound."""
        return False

    def is_stuck(self, state: LaneState, block: Block, c: Tensor) -> bool:
        """Whether every move along an estimate would leave the bounds."""
        return False

    def explained(self, state: LaneState, view: View, block: Block) -> Tensor:
        """Uᵀm for the vector m that the estimator remembers, (replicates, q)."""

    def trial(self, state: LaneState, view: View, points: Tensor) -> Request:
        """f as the step sees it at other points, (replicates, n, d)."""

    def walk(
        self,
        x: Tensor,
        steps: range,
        q: int,
        etas: Sequence[float],
        coefficients: Coefficients,
    ) -> tuple[Tensor, Tensor] | None:
        """x after plain steps that no curve shows, and the last values; None: step one by one."""
        return None

    def stay(self, steps: int) -> None:
        """A step has ended without a move."""
        return

    def unmoved_by(self, state: LaneState, view: View, block: Block) -> Tensor:
        """Which replicates no direction of the block moves: x + mu·u = x, (replicates,)."""

    def points_at(self, state: LaneState, block: Block, columns: Tensor) -> Tensor:
        """The point of each replicate that the value in its column belongs to."""
        return state.x

    def saw(self, state: LaneState, values: Tensor) -> LaneState:
        """The state that has seen a step's values."""
        return state

    def look(self, state: LaneState) -> Request | None:
        """A look at the loss, which is not charged; None where no replicate runs."""

    def observed(self, state: LaneState, gradient: Tensor | None) -> dict[str, Tensor]:
        """What curves show beside loss, best loss and divergence."""

    def best_at(self, state: LaneState, better: Tensor) -> Tensor:
        """The best points, where x of some replicates is better than ever."""

    def recorded(self, state: LaneState) -> LaneState:
        """The state after a point of its curve has been recorded."""

    def gradient(self, state: LaneState) -> Tensor | None:
        """∇f at x for diagnostics, where it is known."""
        return None

    def unmoved(self, state: LaneState) -> Tensor:
        """The share of coordinates that mu·u does not move, ()."""

    def move(
        self, state: LaneState, view: View, block: Block, c: Tensor, eta: float, motion: Motion
    ) -> LaneState:
        """x moved by what an update makes of U·c."""

    def attempt(
        self, state: LaneState, view: View, block: Block, c: Tensor, eta: float, motion: Motion
    ) -> Attempt:
        """The value of f, as the step sees it, where ``move`` would lead; x stays."""

    def short_step(
        self, state: LaneState, view: View, block: Block, c: Tensor, motion: Motion
    ) -> float:
        """The step size that changes x by about a thousandth of its size."""

    def rejected(self, state: LaneState, view: View) -> LaneState:
        """The state of a step that did not move x: what the update keeps begins anew."""

    def averaged(self, state: LaneState, weight: Callable[[], float]) -> LaneState:
        """The state with x in its average, where an average is kept."""
        return state

    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must agree on."""
        found: dict[str, Any] = self.objective.fingerprint()
        return found

    def start_error(self, loss: Tensor) -> str:
        """What to say of a start whose loss is not finite."""

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint holds besides the state."""
        return {}

    def notes(self) -> dict[str, Any]:
        """What a checkpoint says besides, as JSON."""
        return {}

    def start_digest(self) -> str:
        """A few characters that tell one start from another, where a checkpoint does not."""
        return ""

    def weights_reader(self) -> WeightsReader | None:
        """Gives the trained parameters of a module; None where x is a vector."""
        return None

    def save_beside(self, path: Path) -> None:
        """Write what stands beside a checkpoint in a file of its own."""
        return

    def restore(self, state: LaneState, tensors: Mapping[str, Tensor], notes: Any) -> LaneState:
        """Take x from a checkpoint, and the state that stands there."""
        return state


def iterate_for(objective: object, config: Config, x0: Any = None) -> Iterate:
    """The iterate that an objective is minimised over."""
    for kind in ("vectors", "weights"):
        import_module(f"{__name__}.{kind}")
    return iterate_of(objective, config, x0)


@singledispatch
def iterate_of(objective: object, config: Config, x0: Any = None) -> Iterate:
    """Dispatches on the type of the objective; each kind of iterate registers its own."""
    raise TypeError(
        f"{type(objective).__name__} is not an objective; wrap it with zotune.objective"
    )
