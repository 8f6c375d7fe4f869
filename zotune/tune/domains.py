"""Tune's domains as parameters of a search."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
from ray.tune.search.variant_generator import parse_spec_vars
from ray.tune.utils import flatten_dict

from zotune.errors import ConfigError
from zotune.runs.parameters import Parameter, inner_multiple

SPACE = (
    "ZotuneSearch needs a space of tune.uniform, tune.loguniform and their rounded forms, got "
    "none; give it as param_space to the Tuner, or as ZotuneSearch(space, budget=…)"
)


def parameters_of(space: Mapping[str, Any]) -> dict[tuple[str, ...], Parameter]:
    """The parameters of a space, by their paths."""
    _, domains, grids = parse_spec_vars(dict(space))
    if grids:
        raise ConfigError(
            f"{'/'.join(map(str, grids[0][0]))} is a grid, which ZotuneSearch does not take; give "
            "its values to a Tuner each, or a continuous domain"
        )
    if not domains:
        raise ConfigError(SPACE)
    return {tuple(path): parameter_of("/".join(map(str, path)), one) for path, one in domains}


def start_at(parameters: list[Parameter], start: Mapping[str, Any] | None) -> list[float]:
    """The point of the first trial."""
    if start is None:
        return [(c.low + c.high) / 2 for c in parameters]
    told, names = flat(start), [c.name for c in parameters]
    if set(told) != set(names):
        raise ConfigError(
            f"start must have a value for each parameter of the space, {', '.join(names)}, got "
            f"{', '.join(map(str, told)) or 'none'}"
        )
    return [c.coordinate(told[c.name]) for c in parameters]


def parameter_of(name: str, domain: Domain) -> Parameter:
    """The parameter of one of Tune's domains; raises an error for categories and the like."""
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
    whole, log = isinstance(domain, Integer), isinstance(inner, LogUniform)
    step = 1 if whole and step is None else step
    least, most = domain.lower, domain.upper - (1 if whole and step == 1 else 0)
    if step is not None and -math.inf < least < most < math.inf:
        least = inner_multiple(least, step, math.ceil)
        most = inner_multiple(most, step, math.floor)
    if not -math.inf < least < most < math.inf:
        raise ConfigError(
            f"{name} must have finite bounds with at least two values between them, got "
            f"{least:g} to {most:g}; give a constant instead, or other bounds"
        )
    return Parameter(name, least, most, log=log, step=step, whole=whole)


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
