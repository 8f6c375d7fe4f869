"""Parameters with bounds as coordinates of a search: transform and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zotune.errors import ConfigError


@dataclass(frozen=True)
class Parameter:
    """A parameter of a search: its coordinate is its value or, if ``log``, its logarithm.

    Args:
        name: the parameter.
        least: its lower bound.
        most: its upper bound.
        log: whether the coordinate is the logarithm.
        step: what values are rounded to multiples of, counted from ``origin``; None: not rounded.
        origin: a value that is not rounded.
        whole: whether values are of type int.
    """

    name: str
    least: float
    most: float
    log: bool = False
    step: float | None = None
    origin: float = 0
    whole: bool = False

    @property
    def low(self) -> float:
        """The lower bound of the coordinate."""
        return math.log(self.least) if self.log else float(self.least)

    @property
    def high(self) -> float:
        """The upper bound of the coordinate."""
        return math.log(self.most) if self.log else float(self.most)

    def value(self, z: float) -> float | int:
        """The parameter at a coordinate."""
        x = math.exp(z) if self.log else z
        if self.step is not None:
            x = self.origin + round((x - self.origin) / self.step) * self.step
        x = min(max(x, self.least), self.most)
        return round(x) if self.whole else x

    def coordinate(self, value: Any) -> float:
        """The coordinate of a value of the parameter."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not self.least <= value <= self.most:
            raise ConfigError(
                f"{self.name} must start between {self.least:g} and {self.most:g}, got {value!r}"
            )
        return min(max(math.log(value), self.low), self.high) if self.log else float(value)


def inner_multiple(bound: float, step: float, rounded: Callable[[float], int]) -> float:
    """The first multiple of a step inside a bound, which may be one but for rounding errors."""
    near = round(bound / step)
    return step * (near if math.isclose(near * step, bound) else rounded(bound / step))
