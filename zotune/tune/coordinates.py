"""Tune's domains as coordinates of a search: bounds, transform, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ray.tune.search.sample import (
    Categorical,
    Domain,
    Float,
    Integer,
    LogUniform,
    Quantized,
    Uniform,
)
from ray.tune.utils import flatten_dict

from zotune.errors import ConfigError


@dataclass(frozen=True)
class Coordinate:
    """A parameter of a search: ``low`` and ``high`` bound its value, or its logarithm."""

    path: tuple[str, ...]
    low: float
    high: float
    least: float
    most: float
    log: bool = False
    step: float | None = None
    """What values are rounded to multiples of; None: they are not rounded."""
    whole: bool = False

    @property
    def name(self) -> str:
        """Where the parameter is, as in Tune's tables."""
        return "/".join(map(str, self.path))

    def value(self, z: float) -> float | int:
        """The parameter at a coordinate."""
        x = math.exp(z) if self.log else z
        if self.step is not None:
            x = round(x / self.step) * self.step
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


def coordinate_of(path: tuple[str, ...], domain: Domain) -> Coordinate:
    """The coordinate of one of Tune's domains; raises an error for categories and the like."""
    name = "/".join(map(str, path))
    if isinstance(domain, Categorical):
        raise ConfigError(
            f"{name} is a choice of {len(domain.categories)} categories, and ZotuneSearch takes "
            "numbers only; run one search for each category, or use OptunaSearch"
        )
    sampler: Any = domain.get_sampler()  # type: ignore[no-untyped-call]
    step, inner = (
        (sampler.q, sampler.sampler) if isinstance(sampler, Quantized) else (None, sampler)
    )
    if not isinstance(domain, Float | Integer) or not isinstance(inner, Uniform | LogUniform):
        raise ConfigError(
            f"{name} is {type(domain).__name__} by {inner}, and ZotuneSearch takes uniform and "
            "log-uniform numbers only; give tune.uniform or tune.loguniform with bounds"
        )
    whole = isinstance(domain, Integer)
    step = 1 if whole and step is None else step
    least, most = domain.lower, domain.upper - (1 if whole and step == 1 else 0)
    if step is not None and -math.inf < least < most < math.inf:
        least, most = _multiple(least, step, math.ceil), _multiple(most, step, math.floor)
    if not -math.inf < least < most < math.inf:
        raise ConfigError(
            f"{name} must have finite bounds with at least two values between them, got "
            f"{least:g} to {most:g}; give a constant instead, or other bounds"
        )
    log = isinstance(inner, LogUniform)
    low, high = (math.log(least), math.log(most)) if log else (float(least), float(most))
    return Coordinate(tuple(path), low, high, least, most, log, step, whole)


def _multiple(bound: float, step: float, rounded: Callable[[float], int]) -> float:
    """The first multiple of a step inside a bound, which may be one but for rounding errors."""
    near = round(bound / step)
    return step * (near if math.isclose(near * step, bound) else rounded(bound / step))


def nested(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """A nested dict from values by their paths."""
    found: dict[str, Any] = {}
    for path, value in values.items():
        inner = found
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = value
    return found


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a nested dict by names such as ``optimizer/lr``."""
    return dict(flatten_dict(dict(values), "/"))
