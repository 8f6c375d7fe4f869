"""Step-size rules.

One file per rule. There are two kinds. A rule that does not depend on values is a function of the
step's index and its block::

    @steps.register("harmonic", formula="eta / (t + 1)")
    def harmonic(eta, t, best, usual):
        return eta * (best / usual) / (t + 1)

A rule that depends on values (a line search) is a generator. It gets a ``Line``, may yield trial
step sizes, is sent the value of f there (each is charged), and returns the step size to take, or
None to leave x where it is. Its memory between steps is ``line.memory``, numbers by name, which are
saved with the run::

    @steps.register("halving", formula="eta / 2ᵏ, the first that descends", memory={"eta": nan},
                    default_eta=1.0, most_trials=8)
    def halving(line):
        eta = line.eta if isnan(line.memory["eta"]) else line.memory["eta"]
        for _ in range(8):
            if (yield eta) < line.value:
                break
            eta /= 2
        else:
            return None
        line.memory["eta"] = 2 * eta
        return eta
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING

from zotune.errors import ConfigError, one_of
from zotune.registry import Registry, summary_of
from zotune.steps.schedules import COSINE, LEVEL, LINEAR, SCHEDULES, schedule_factor

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.directions import Directions
    from zotune.estimators import Estimator

__all__ = ["AUTO", "CONSTANT", "COSINE", "LEVEL", "LINEAR", "SCHEDULES", "SQRT_DECAY", "STEPS"]
__all__ += ["THEORY", "Line", "Step", "StepRule", "register", "schedule_factor"]

THEORY, AUTO, CONSTANT, SQRT_DECAY = "theory", "auto", "constant", "sqrt-decay"
"""Names that other parts of zotune refer to: the theory's step, the line search, the constant step
eta, and the step of the stochastic bound."""

Size = Callable[[float, int, float, float], float]
"""(eta, t, best, usual) → the step size; in units of 1/L if the rule needs the smoothness."""


@dataclass
class Line:
    """The data of a step for a line search."""

    eta: float | None
    """The setting ``eta``."""
    t: int
    """The index of the step."""
    q: int
    dim: int
    """Dimension of the vector that the step moves."""
    value: float
    """f(x), on the mini-batch of this step."""
    rounding: float
    """The rounding error of a value."""
    v: Tensor
    """The differences along the block's directions, (q,)."""
    first: Callable[[], float]
    """The step size for the first trial of a run: a small change of x."""
    natural: float | None
    """The natural step size of the update; None if it has none."""
    memory: MutableMapping[str, float]
    """The memory of the rule, which it may change."""
    slope: Callable[[], float]
    """gᵀΔ/η for the last trial step Δ: the slope of f along the step, by the estimate."""
    sees_batches: bool = False
    """Whether every step has another mini-batch, and no schedule shortens the steps."""


Search = Generator[float, float, float | None]


@dataclass(frozen=True)
class Step:
    """An entry of the registry: the rule and its requirements."""

    name: str
    formula: str
    summary: str
    size: Size | None = None
    """The step size, if it does not depend on values."""
    search: Callable[[Line], Search] | None = None
    """The line search, if it depends on values."""
    needs_smoothness: bool = False
    """Whether the size has to be divided by L."""
    default_eta: float | None = None
    """Default of eta; None: eta is required, unless the rule finds its own."""
    memory: Mapping[str, float] = field(default_factory=dict)
    """The names and initial values of the rule's memory."""
    most_trials: int = 0
    """Maximum number of trial values per step."""

    @property
    def code(self) -> object:
        """The function of the entry."""
        return self.size or self.search

    @property
    def sees_values(self) -> bool:
        """Whether it depends on values, so that replicates may spend differently."""
        return self.search is not None


STEPS: Registry[Step] = Registry("step", __name__, lambda entry: entry.code)


def register(
    name: str,
    *,
    formula: str,
    summary: str = "",
    needs_smoothness: bool = False,
    default_eta: float | None = None,
    memory: Mapping[str, float] | None = None,
    most_trials: int = 0,
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Register the decorated function as a step rule under ``name``, which must be new."""

    def add(rule: Callable[..., object]) -> Callable[..., object]:
        doc = summary or summary_of(rule)
        kind = {"search": rule} if isgeneratorfunction(rule) else {"size": rule}
        entry = Step(
            name,
            formula,
            doc,
            **kind,
            needs_smoothness=needs_smoothness,
            default_eta=default_eta,
            memory=memory or {},
            most_trials=most_trials,
        )
        STEPS.add(name, entry)
        return rule

    return add


@dataclass(frozen=True)
class StepRule:
    """A rule bound to the estimator, the directions and q: the step size at step t."""

    name: str
    eta: float | None
    q: int
    dim: int
    estimator: Estimator
    directions: Directions
    _best: dict[int, float] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        one_of("step", self.name, STEPS)
        if self.entry.size and self.eta is None and self.entry.default_eta is None:
            raise ConfigError(
                f"step {self.name!r} needs a step size, got eta=None; give eta, or step='theory'"
            )
        if self.needs_smoothness and self.estimator.moments is None:
            raise ConfigError(
                f"step 'theory' needs the moments of the estimator, and {self.estimator.name!r} "
                "declares none; give step='constant' with eta, or register it with moments"
            )

    @cached_property
    def entry(self) -> Step:
        """The entry of the rule, cached."""
        return STEPS[self.name]

    @property
    def needs_smoothness(self) -> bool:
        """Whether the step has to be divided by L."""
        return self.entry.needs_smoothness

    def sizes(self, steps: Iterable[int], q: int) -> list[float]:
        """The step sizes (times L under ``theory``) for blocks of q, which may have shrunk."""
        size = self.entry.size
        assert size is not None  # not a line search
        eta = self.entry.default_eta if self.eta is None else self.eta
        assert eta is not None  # checked above
        best, usual = self.best(q), self.best(self.q)
        return [size(eta, t, best, usual) for t in steps]

    def size(self, t: int, q: int) -> float:
        """The same for a single step t."""
        return self.sizes((t,), q)[0]

    def weight(self, t: int, q: int) -> float:
        """The weight of x_t in the average iterate: the step times E gᵀĝ / ‖g‖²."""
        moments = self.estimator.moments
        alignment = 1.0 if moments is None else moments(self.directions, q, self.dim).alignment
        return (self.size(t, q) if self.entry.size else 1.0) * alignment

    def best(self, q: int) -> float:
        """The theory step times L; q if the estimator declares no moments."""
        if q not in self._best:
            moments = self.estimator.moments
            known = moments is not None
            self._best[q] = moments(self.directions, q, self.dim).step if known else float(q)  # type: ignore[misc]
        return self._best[q]
