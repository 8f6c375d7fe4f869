"""The state of a run: ``LaneState`` for a lane, ``State`` for all lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from zotune.core.budget import Ledger
from zotune.core.curve import Curve, Observation


@dataclass(frozen=True)
class Told:
    """The values that a replayed method was told: its whole state."""

    values: Tensor
    """All of them, in order, (n,) in float64."""
    planned: tuple[int, ...]
    """The budgets that were planned with, one for each part of the run: a run that continues with a
    larger budget ends as planned, and begins once more at its answer."""
    stamp: str
    """The version of the method that asked for them."""
    start: Tensor | None = None
    """Where the method began, (d,), if that is not the start of the run: the function changed."""
    before: int = 0
    """What had been spent there."""
    outputs: Tensor | None = None
    """The residuals of all values, (n, m); None if the function returns one number."""
    residuals: Tensor | None = None
    """Those of the answer, (m,)."""
    jacobian: Tensor | None = None
    """Their derivatives, (m, d), if the method knows them."""


@dataclass(frozen=True)
class FlatStart:
    """What is known of a function all of whose first differences were zero."""

    mu: float
    """The radius of differences that is used."""
    tried: int
    """Directions without a difference over it."""
    goes_on: bool
    """Whether mu is still to be found."""


@dataclass(frozen=True)
class LaneState:
    """Everything that evolves for the replicates of a lane; a checkpoint holds nothing else.

    If the objective is pure, the tensors are inference tensors of torch: clone them before changing
    or differentiating them.
    """

    x: Tensor
    """The points, (replicates, d); (replicates, 0) if x is in a module."""
    steps: int
    lost: int
    """How many replicates have diverged."""
    ledger: Ledger
    loss: Tensor
    """The last known finite loss, (replicates,)."""
    start_loss: Tensor
    best_loss: Tensor
    best_x: Tensor
    """(replicates, d), or (replicates, 0)."""
    diverged: Tensor
    """Which replicates have diverged, (replicates,)."""
    inverse_smoothness: Tensor
    """1/L, (replicates, 1): given, known or estimated; NaN if not estimated."""
    average: Tensor
    """Weighted sum of the iterates, (replicates, d); (replicates, 0) if not kept."""
    average_weight: float = 0.0
    q: int = 0
    """Size of the last block."""
    looked: int = -1
    """Spent budget at the last uncharged evaluation of the loss."""
    slots: Mapping[str, Tensor] = field(default_factory=dict)
    """Vectors of the update, shaped like x; for a module they are stored with its weights."""
    center: Tensor | None = None
    """f(x) of each replicate, if the next step need not evaluate it."""
    next_q: int | None = None
    """The size of the next block, if a rule has chosen it by values."""
    rule: str = ""
    """The step rule whose numbers these are."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What the step rule remembers."""
    flat: FlatStart | None = None
    """The search for mu; None if the first block had differences."""
    failed: int = 0
    """Values that were not finite, over all replicates."""
    batches: int = 0
    """Mini-batches since the last point of the curve, and the sum of their losses."""
    batch_losses: float = 0.0
    repeats: int = 0
    """Charged evaluations at a point whose value was known, to see noise."""
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    """Last metrics of the iterate besides the loss, (replicates,) each."""
    curve: Curve = field(default_factory=Curve)
    told: Told | None = None
    """What a replayed method was told; None for steps along blocks."""

    @classmethod
    def at_start(cls, own: Mapping[str, Any], unknown: Tensor, **rest: Any) -> LaneState:
        """The state before any loss is known.

        Args:
            own: the fields given by the iterate.
            unknown: NaN for each replicate, with the dtype and device of losses.
            rest: other fields that differ from their defaults.
        """
        return cls(
            **own,
            steps=0,
            lost=0,
            ledger=Ledger(),
            loss=unknown,
            start_loss=unknown,
            best_loss=torch.full_like(unknown, torch.inf),
            diverged=torch.zeros_like(unknown, dtype=torch.bool),
            inverse_smoothness=unknown[:, None].to(own["x"].dtype),
            **rest,
        )

    def but(self, **changes: Any) -> LaneState:
        """This state with some fields changed; three times as fast as ``dataclasses.replace``."""
        state = object.__new__(LaneState)
        state.__dict__.update(self.__dict__, **changes)
        return state

    def without_memory(self) -> LaneState:
        """This state at the same points, without what belongs to the path that led there."""
        return self.but(slots={}, center=None, next_q=None, rule="", numbers={})

    def observation(self, spent: int, tensors: Mapping[str, Tensor]) -> Observation:
        """An observation of this state: losses, and the metrics of the iterate."""
        losses = {"loss": self.loss, "best_loss": self.best_loss, "diverged": self.diverged}
        return Observation(
            queries=self.ledger.queries,
            evaluations=self.ledger.evaluations,
            monitored=self.ledger.monitored,
            steps=self.steps,
            q=self.q,
            spent=spent,
            tensors={**losses, **tensors},
        )


@dataclass(frozen=True)
class State:
    """The states of all lanes: one lane for all replicates, or one for each of them."""

    lanes: tuple[LaneState, ...]

    @property
    def x(self) -> Tensor:
        """The points of all replicates."""
        return self._all("x")

    @property
    def best_x(self) -> Tensor:
        """The best point of each replicate."""
        return self._all("best_x")

    @property
    def loss(self) -> Tensor:
        """The last finite loss of each replicate."""
        return self._all("loss")

    @property
    def start_loss(self) -> Tensor:
        """The loss of each replicate at its start."""
        return self._all("start_loss")

    @property
    def best_loss(self) -> Tensor:
        """The lowest loss of each replicate."""
        return self._all("best_loss")

    @property
    def diverged(self) -> Tensor:
        """Which replicates have diverged."""
        return self._all("diverged")

    @property
    def inverse_smoothness(self) -> Tensor:
        """1/L of each replicate."""
        return self._all("inverse_smoothness")

    @property
    def average(self) -> Tensor:
        """The weighted sum of each replicate's iterates."""
        return self._all("average")

    @property
    def average_weight(self) -> float:
        """The weight of that sum."""
        return self.lanes[0].average_weight

    @property
    def lost(self) -> int:
        """How many replicates have diverged."""
        return sum(lane.lost for lane in self.lanes)

    @property
    def steps(self) -> int:
        """Steps per replicate, the mean rounded down."""
        return sum(lane.steps for lane in self.lanes) // len(self.lanes)

    @property
    def ledger(self) -> Ledger:
        """Counters per replicate, means rounded down."""
        return Ledger.mean([lane.ledger for lane in self.lanes])

    @property
    def curve(self) -> Curve:
        """The curve of the first lane, which is the whole run's if there is one lane."""
        return self.lanes[0].curve

    def _all(self, name: str) -> Tensor:
        parts = [getattr(lane, name) for lane in self.lanes]
        return parts[0] if len(parts) == 1 else torch.cat(parts)
