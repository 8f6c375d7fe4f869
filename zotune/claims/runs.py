"""Runs for claims: configurations, final losses, and which replicates tune or judge."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from zotune.claims.claim import Tuning
from zotune.claims.measures import Measure, comparable
from zotune.claims.signflip import Vector
from zotune.core.settings import flat
from zotune.errors import ConfigError

Point = dict[str, Any]
"""A configuration, with dots in the names of a problem's options."""

THEORY, TUNED, AS_RUN = "theory", "tuned", "as run"
NOT_SEARCHED = ("replicate", "replicates")


@dataclass(frozen=True)
class Finals:
    """The end of one run: its configuration, flat or nested, and the loss of every replicate.

    A diverged replicate counts as max(its start loss, its last finite loss), never left out.
    """

    config: Mapping[str, Any]
    losses: Sequence[float]
    minimum: float | None = None
    """The minimum of the objective, if known."""
    smoothness_estimated: bool = False
    """Whether L was estimated, so that the step is not the theory's."""
    spent: int = 0
    """Total budget spent by all replicates, in the unit of ``count``."""


@dataclass(frozen=True)
class Compared:
    """A configuration with one comparable value for each unit of replication."""

    config: Point
    values: Vector
    smoothness_estimated: bool = False
    spent: int = 0


@dataclass(frozen=True)
class Field:
    """Every configuration at one step size, with the values that judge it."""

    step: str
    scale: str
    """``ratio`` if values are logarithms, ``difference`` if they are plain losses."""
    runs: list[Compared]
    units: list[str]
    """Names of the paired units: ``replicate 3``, or ``problem.seed 3`` across instances."""
    remarks: dict[int, str] = field(default_factory=dict)
    """Remarks on the tuned value, by the run's index."""
    tuning_cost: int | None = None
    """Budget of the runs that tuning did not choose; None without tuning."""

    @property
    def points(self) -> list[Point]:
        """The configurations."""
        return [dict(run.config) for run in self.runs]


def fields(
    runs: Iterable[Finals],
    tuning: Tuning | None,
    measure: Measure,
    across: str | None = None,
) -> list[Field]:
    """The fields to judge: all runs, or one field at the theory's step and one at tuned steps."""
    joined, numbers = _joined(list(runs))
    scale, values = comparable([run.losses for run in joined], [run.minimum for run in joined])
    whole = [
        Compared(dict(run.config), x, run.smoothness_estimated, run.spent)
        for run, x in zip(joined, values, strict=True)
    ]
    units = [f"replicate {number}" for number in numbers]
    if across is not None:
        whole, units = _by_instance(whole, across, measure)
    if tuning is None:
        at_theory = all(_has_theory_step(run.config) for run in whole)
        return [Field(THEORY if at_theory else AS_RUN, scale, whole, units)]
    if len(units) <= tuning.replicates:
        what = "replicates" if across is None else "instances"
        raise ConfigError(
            f"{tuning.replicates} {what} choose {tuning.over}, and some must be left to judge; "
            f"got {len(units)} in all"
        )
    left = units[tuning.replicates :]
    tuned, remarks = _tuned(whole, tuning, measure)
    cost = sum(run.spent for run in whole) - sum(run.spent for run in tuned)
    judged = [Field(TUNED, scale, tuned, left, remarks, cost)]
    if tuning.theory is not None:
        judged.insert(0, Field(THEORY, scale, _at_theory(whole, tuning), left))
    return judged


def _by_instance(
    runs: list[Compared], across: str, measure: Measure
) -> tuple[list[Compared], list[str]]:
    """Merge the instances of a configuration to one run, with the centre of each's replicates."""
    groups: dict[Hashable, dict[Any, Compared]] = {}
    for run in runs:
        if across not in run.config:
            raise ConfigError(f"a claim is judged across {across}, and some runs have none")
        groups.setdefault(_key(run.config, (across,)), {})[run.config[across]] = run
    found = [dict(sorted(group.items())) for group in groups.values()]
    instances = list(found[0])
    if any(list(group) != instances for group in found):
        raise ConfigError(f"runs must have the same values of {across}, and some lack one")
    joined = [
        Compared(
            _without(group[instances[0]].config, across),
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
        groups.setdefault(_key(run.config, NOT_SEARCHED), []).append(run)
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
        joined.append(replace(group[0], config=config, losses=losses, spent=spent))
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


def _key(config: Mapping[str, Any], but: Sequence[str]) -> Hashable:
    return tuple(sorted((k, str(v)) for k, v in config.items() if k not in but))


def _has_theory_step(config: Mapping[str, Any]) -> bool:
    return config.get("step", THEORY) == THEORY and config.get("eta") in (None, 1)


def _at_theory(runs: list[Compared], tuning: Tuning) -> list[Compared]:
    """Runs at the theory's value, judged on the same replicates as the tuned ones."""
    kept = [run for run in runs if run.config.get(tuning.over) == _theory(run, tuning)]
    return [_judging(run, tuning) for run in kept]


def _theory(run: Compared, tuning: Tuning) -> float | None:
    if isinstance(tuning.theory, dict):
        return tuning.theory.get(str(run.config.get("estimator")))
    return tuning.theory


def _tuned(
    runs: list[Compared], tuning: Tuning, measure: Measure
) -> tuple[list[Compared], dict[int, str]]:
    """For each configuration, the value with the lowest centre of the tuning replicates."""
    groups: dict[Hashable, list[Compared]] = {}
    for run in runs:
        groups.setdefault(_key(run.config, (tuning.over,)), []).append(run)
    chosen: list[Compared] = []
    remarks: dict[int, str] = {}
    for group in groups.values():
        group.sort(key=lambda run: float(run.config[tuning.over]))
        at = int(np.argmin([measure.centre(run.values[: tuning.replicates]) for run in group]))
        end = "largest" if at == len(group) - 1 else "smallest" if at == 0 else None
        remark = f"{tuning.over} {group[at].config[tuning.over]:g}"
        if end and len(group) > 1:
            remark += f", the {end} tried: a better one may lie beyond"
        remarks[len(chosen)] = remark
        chosen.append(_judging(group[at], tuning))
    return chosen, remarks


def _judging(run: Compared, tuning: Tuning) -> Compared:
    """The run without its tuned setting and without the values that chose it."""
    left = run.values[tuning.replicates :]
    return replace(run, config=_without(run.config, tuning.over), values=left)


def _without(config: Point, key: str) -> Point:
    return {k: v for k, v in config.items() if k != key}
