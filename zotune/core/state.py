"""What evolves in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from zotune.core.budget import Ledger
from zotune.core.curve import Curve, Observation


@dataclass(frozen=True)
class LaneState:
    """All that evolves for replicates that go in step; saved and loaded, they continue as before.

    Tensors of a pure objective's run are made in torch's inference mode: clone one to change it, or
    to differentiate by it.
    """

    x: Tensor
    """The points, (replicates, d); (replicates, 0) where x lives in a module."""
    steps: int
    lost: int
    """How many replicates have diverged."""
    ledger: Ledger
    loss: Tensor
    """The last finite loss that was seen, (replicates,)."""
    start_loss: Tensor
    best_loss: Tensor
    best_x: Tensor
    """(replicates, d), or (replicates, 0)."""
    diverged: Tensor
    """Which replicates have ended, (replicates,)."""
    inverse_smoothness: Tensor
    """1/L, (replicates, 1): given, known or estimated; NaN if not estimated."""
    average: Tensor
    """Weighted sum of the iterates, (replicates, d); (replicates, 0) where it is not kept."""
    average_weight: float = 0.0
    q: int = 0
    """Of the last block."""
    looked: int = -1
    """Spent budget when the loss was last looked at."""
    slots: Mapping[str, Tensor] = field(default_factory=dict)
    """Vectors that the update keeps, like x; those of a module's weights stand with the weights."""
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    """What estimator, step and block-size rule remember, by ``<seam>.<name>``."""
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    """What the iterate has last seen besides the loss, (replicates,) each."""
    curve: Curve = field(default_factory=Curve)

    @classmethod
    def at_start(cls, own: Mapping[str, Any], unknown: Tensor, **rest: Any) -> LaneState:
        """The state before any loss has been seen.

        Args:
            own: the fields that are the iterate's.
            unknown: NaN for each replicate, as losses are.
            rest: other fields that do not have their defaults.
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
        """This state with other values; ``replace`` takes three times as long."""
        state = object.__new__(LaneState)
        state.__dict__.update(self.__dict__, **changes)
        return state

    def observation(self, spent: int, tensors: Mapping[str, Tensor]) -> Observation:
        """What is known of it now: losses, and what an iterate adds to them."""
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
    """The states of all lanes: one for all replicates where they go in step, else one for each."""

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
        """Steps of a replicate, the mean rounded down."""
        return sum(lane.steps for lane in self.lanes) // len(self.lanes)

    @property
    def ledger(self) -> Ledger:
        """What a replicate has used, the mean rounded down."""
        return Ledger.mean([lane.ledger for lane in self.lanes])

    @property
    def curve(self) -> Curve:
        """The curve of the first lane; of the whole run where there is one."""
        return self.lanes[0].curve

    def _all(self, name: str) -> Tensor:
        parts = [getattr(lane, name) for lane in self.lanes]
        return parts[0] if len(parts) == 1 else torch.cat(parts)
