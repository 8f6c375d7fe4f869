"""Runs for claims: configurations with comparable values, over replicates or over instances."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np

from zotune.claims.measures import RATIO, Measure, comparable
from zotune.claims.signflip import Vector
from zotune.core.settings import flat
from zotune.errors import ConfigError

Point = dict[str, Any]
"""A configuration, with dots in the names of a problem's options."""

AWAY = 10.0
"""A run that ends at more than this multiple of its start's loss above the minimum has diverged,
even if no value has overflowed yet."""
NOT_SEARCHED = ("replicate", "replicates")


@dataclass(frozen=True)
class Finals:
    """The end of one run: its configuration, flat or nested, and the loss of every replicate.

    A diverged replicate is never left out: it counts as the worst outcome, worse than any number.
    """

    config: Mapping[str, Any]
    losses: Sequence[float]
    minimum: float | None = None
    """The minimum of the objective, if known."""
    smoothness_estimated: bool = False
    """Whether L was estimated, so that the step is not the theory's."""
    spent: int = 0
    """Total budget spent by all replicates, in the unit of ``count``."""
    diverged: Sequence[bool] = ()
    """Whether each replicate has diverged; empty if none has."""
    start: float | None = None
    """The loss at the start, if known."""

    @property
    def lost(self) -> list[bool]:
        """Whether each replicate has diverged."""
        return list(self.diverged) or [False] * len(self.losses)


@dataclass(frozen=True)
class Compared:
    """A configuration with one comparable value for each unit of replication."""

    config: Point
    values: Vector
    """Infinite where the unit has diverged."""
    smoothness_estimated: bool = False
    spent: int = 0


def compared(
    runs: Iterable[Finals], measure: Measure, across: str | None = None
) -> tuple[str, list[Compared], list[str]]:
    """The unit of comparison, one run per configuration, and the names of its units."""
    joined, numbers = _joined(list(runs))
    scale, values = comparable([run.losses for run in joined], [run.minimum for run in joined])
    whole = [
        Compared(dict(run.config), _censored(run, x, scale), run.smoothness_estimated, run.spent)
        for run, x in zip(joined, values, strict=True)
    ]
    units = [f"replicate {number}" for number in numbers]
    if across is not None:
        whole, units = _by_instance(whole, across, measure)
    return scale, whole, units


def _censored(run: Finals, values: Vector, scale: str) -> Vector:
    """The values with those of diverged replicates infinite: the number itself means nothing."""
    lost = np.array(run.lost)
    if scale == RATIO and run.start is not None:
        above = run.start - (run.minimum or 0.0)
        lost |= values > log(AWAY * above) if above > 0 else False
    return np.where(lost, np.inf, values)


def _by_instance(
    runs: list[Compared], across: str, measure: Measure
) -> tuple[list[Compared], list[str]]:
    """Merge the instances of a configuration to one run, with the centre of each's replicates."""
    groups: dict[Hashable, dict[Any, Compared]] = {}
    for run in runs:
        if across not in run.config:
            raise ConfigError(f"a claim is judged across {across}, and some runs have none")
        groups.setdefault(key_of(run.config, (across,)), {})[run.config[across]] = run
    found = [dict(sorted(group.items())) for group in groups.values()]
    instances = list(found[0])
    if any(list(group) != instances for group in found):
        raise ConfigError(f"runs must have the same values of {across}, and some lack one")
    joined = [
        Compared(
            without(group[instances[0]].config, across),
            np.array([measure.centre(run.values) for run in group.values()]),
            any(run.smoothness_estimated for run in group.values()),
            sum(run.spent for run in group.values()),
        )
        for group in found
    ]
    return joined, [f"{across} {instance}" for instance in instances]


def _joined(runs: list[Finals]) -> tuple[list[Finals], list[int]]:
    """Merge to one run per configuration; returns also the indices of the common replicates.

    Replicates that were separate trials are merged.
    """
    groups: dict[Hashable, list[Finals]] = {}
    for nested in runs:
        run = replace(nested, config=dict(flat(nested.config)))
        groups.setdefault(key_of(run.config, NOT_SEARCHED), []).append(run)
    joined: list[Finals] = []
    rows: list[list[int]] = []
    for group in groups.values():
        group.sort(key=lambda run: int(run.config.get("replicate") or 0))
        firsts = [run.config.get("replicate") or 0 for run in group]
        if len(set(firsts)) < len(firsts):
            raise ConfigError("a configuration was run twice; judge one launch at a time")
        losses = [loss for run in group for loss in run.losses]
        config = {k: v for k, v in group[0].config.items() if k not in NOT_SEARCHED}
        spent = sum(run.spent for run in group)
        lost = [one for run in group for one in run.lost]
        first = replace(group[0], config=config, losses=losses, spent=spent)
        joined.append(replace(first, diverged=lost))
        rows.append([number for run in group for number in _numbers(run)])
    lengths = {len(run.losses) for run in joined}
    if len(lengths) > 1:
        raise ConfigError(f"runs must have equally many replicates, got {sorted(lengths)}")
    if any(numbers != rows[0] for numbers in rows):
        raise ConfigError("runs must have the same replicates, and some lack one that others have")
    return joined, rows[0] if rows else []


def _numbers(run: Finals) -> range:
    """The indices of a run's replicates."""
    first = int(run.config.get("replicate") or 0)
    return range(first, first + len(run.losses))


def key_of(config: Mapping[str, Any], but: Sequence[str]) -> Hashable:
    """A key of a configuration without some of its settings."""
    return tuple(sorted((k, str(v)) for k, v in config.items() if k not in but))


def without(config: Point, key: str) -> Point:
    """A configuration without one of its settings."""
    return {k: v for k, v in config.items() if k != key}
