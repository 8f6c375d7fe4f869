"""What a method for vectors is given at its start, and the types of what it yields and is sent."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Points = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
T = TypeVar("T")
Stage = Generator[Points, Vector, T]
"""A generator that yields points (n, d), is sent their values (n,), and returns a T."""


class Choice(NamedTuple):
    """What was chosen automatically for a setting, and why.

    >>> print(Choice("q", "16", "the budget covers few full blocks"))
    16: the budget covers few full blocks
    """

    setting: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.value}: {self.reason}"


@dataclass
class Start:
    """The start of a run: a point, its value, the bounds and the budget.

    Args:
        x: the start, (d,), inside the bounds.
        value: f(x), which is charged already.
        left: evaluations that are left; kept up to date while the method runs.
        bounds: lower and upper bounds, (d,) each; None: no bounds.
        scale: how far coordinates may be expected to move, if the user has said so.
        seed: of the method's random numbers; another one for every replicate.
        budget: evaluations of the whole run; default: those that are left and that of the start.
        residuals: those at x, (m,), if the function returns them; ``value`` is the sum of squares.

    >>> start = Start(np.array([3.0, 0.1]), 9.0, left=99, bounds=(np.zeros(2), np.ones(2)))
    >>> start.inside(start.x).tolist(), start.reach.tolist(), start.budget
    ([1.0, 0.1], [3.0, 1.0], 100)
    """

    x: Vector
    value: float
    left: int
    bounds: tuple[Vector, Vector] | None = None
    scale: float | None = None
    seed: int = 0
    budget: int = 0
    residuals: Vector | None = None
    choices: dict[str, Choice] = field(default_factory=dict)
    """What the method has said of its choices, by setting."""
    incumbent: Callable[[], tuple[Vector, float]] | None = None
    """The answer so far and its value, if it is not simply the lowest value seen."""
    jacobian: Matrix | None = None
    """The derivatives of the residuals at the answer, (m, d), if the method knows them."""

    def __post_init__(self) -> None:
        self.budget = self.budget or self.left + 1

    @property
    def dim(self) -> int:
        """d."""
        return len(self.x)

    @property
    def low(self) -> Vector:
        """Lower bounds, −inf where there are none."""
        return np.full(self.dim, -np.inf) if self.bounds is None else self.bounds[0]

    @property
    def high(self) -> Vector:
        """Upper bounds, inf where there are none."""
        return np.full(self.dim, np.inf) if self.bounds is None else self.bounds[1]

    @property
    def reach(self) -> Vector:
        """How far each coordinate may be expected to move: ``scale`` or 1, or its size."""
        return np.maximum(np.abs(self.x), self.scale or 1.0)

    def rng(self) -> np.random.Generator:
        """A generator of random numbers of this run's own, the same each time."""
        return np.random.default_rng(self.seed % 2**64)

    def inside(self, points: Points) -> Points:
        """The projection of points onto the bounds."""
        return points if self.bounds is None else np.clip(points, *self.bounds)

    def choose(self, setting: str, value: object, reason: str) -> None:
        """Say what was chosen and why; ``run.chosen`` shows it."""
        self.choices[setting] = Choice(setting, str(value), reason)

    def answer(self, x: Vector, value: float) -> None:
        """Declare the answer so far, where it is not the lowest value: for noisy functions."""
        kept = x.copy(), value
        self.incumbent = lambda: kept

    def at(self, **changes: Any) -> Start:
        """This start with some fields changed, which shares its choices."""
        return replace(self, **changes)
