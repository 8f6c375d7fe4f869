"""Step-size rules: how far to go along the estimate at step t.

``theory``      eta · (E gᵀĝ / E‖ĝ‖²) / L, the best step for an L-smooth function (eta: 1)
``constant``    eta
``sqrt-decay``  eta / √(t + 1)
``auto``        chosen by the descent itself, see ``zotune.descent``
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import cos, pi, sqrt

from zotune.directions import Directions
from zotune.errors import ConfigError, one_of
from zotune.estimators import Estimator

THEORY, CONSTANT, SQRT_DECAY, AUTO = "theory", "constant", "sqrt-decay", "auto"
STEPS = {
    THEORY: "eta · (E gᵀĝ / E‖ĝ‖²) / L, with eta = 1 unless given",
    CONSTANT: "eta",
    SQRT_DECAY: "eta / √(t + 1)",
    AUTO: "from values that are there anyway; with update auto",
}

LEVEL, LINEAR, COSINE = "constant", "linear", "cosine"
SCHEDULES = {
    LEVEL: "1",
    LINEAR: "1 − spent/budget",
    COSINE: "(1 + cos(π spent/budget)) / 2",
}


def schedule_factor(name: str, warmup: float, share: float, after: float) -> float:
    """What a schedule multiplies the step by.

    Args:
        name: constant, linear or cosine.
        warmup: the share of the budget over which the factor first rises to 1; a step counts
            with what is spent after it, so that the first is not of size 0.
        share: spent / budget before the step.
        after: the same after it.

    >>> tenths = [k / 10 for k in range(11)]
    >>> [schedule_factor("linear", 0.2, tenths[k], tenths[k + 1]) for k in (0, 1, 2, 6)]
    [0.5, 1.0, 1.0, 0.5]
    """
    if share < warmup:
        return min(1.0, after / warmup)
    done = (share - warmup) / (1 - warmup)
    if name == LINEAR:
        return 1 - done
    return (1 + cos(pi * done)) / 2 if name == COSINE else 1.0


@dataclass(frozen=True)
class StepRule:
    """The step size at step t for a block of q directions, up to 1/L under ``theory``."""

    name: str
    eta: float | None
    q: int
    dim: int
    estimator: Estimator
    directions: Directions
    _sizes: dict[int, float] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        one_of("step", self.name, STEPS)
        if self.name != THEORY and self.eta is None:
            raise ConfigError(
                f"step {self.name!r} needs a step size, got eta=None; give eta, or step='theory'"
            )
        if self.needs_smoothness and self.estimator.moments is None:
            raise ConfigError(
                f"step 'theory' needs the moments of the estimator, and {self.estimator.name!r} "
                "declares none; give step='constant' with eta, or register it with moments"
            )

    @property
    def needs_smoothness(self) -> bool:
        """Whether the step has to be divided by L."""
        return self.name == THEORY

    def size(self, t: int, q: int) -> float:
        """The step (times L under ``theory``) for step t, rescaled where the block has shrunk."""
        if q not in self._sizes:
            eta = 1.0 if self.eta is None else self.eta
            best = self._best(q)
            self._sizes[q] = eta * (best if self.name == THEORY else best / self._best(self.q))
        size = self._sizes[q]
        return size / sqrt(t + 1) if self.name == SQRT_DECAY else size

    def weight(self, t: int, q: int) -> float:
        """The weight of x_t in the average iterate: the step times E gᵀĝ / ‖g‖²."""
        moments = self.estimator.moments
        alignment = 1.0 if moments is None else moments(self.directions, q, self.dim).alignment
        return self.size(t, q) * alignment

    def _best(self, q: int) -> float:
        """The theory step times L; q itself where the estimator declares no moments."""
        moments = self.estimator.moments
        return float(q) if moments is None else moments(self.directions, q, self.dim).step
