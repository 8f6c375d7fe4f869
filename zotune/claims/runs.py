"""Runs as claims see them: configurations, final losses, and which rows choose or judge."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from zotune.claims.claim import Tuning
from zotune.errors import ConfigError

Point = dict[str, Any]
"""A configuration, with dots in the names of a problem's options."""
Vector = npt.NDArray[np.float64]

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
    """The objective's lowest value, where it is known."""


@dataclass(frozen=True)
class Field:
    """Every configuration at one step size, with the rows that judge it."""

    step: str
    runs: list[Finals]
    remarks: dict[int, str] = field(default_factory=dict)
    """What is to be said of the chosen value, by the run's place."""

    @property
    def points(self) -> list[Point]:
        """The configurations."""
        return [dict(run.config) for run in self.runs]


def fields(runs: Iterable[Finals], tuning: Tuning | None) -> list[Field]:
    """What there is to judge: all runs, or those at the theory's step and those at tuned ones."""
    whole = _joined(list(runs))
    if tuning is None:
        at_theory = all(_has_theory_step(run.config) for run in whole)
        return [Field(THEORY if at_theory else AS_RUN, whole)]
    if any(len(run.losses) <= tuning.replicates for run in whole):
        raise ConfigError(
            f"{tuning.replicates} replicates choose {tuning.over}, and some must be left to judge; "
            f"got {min(len(run.losses) for run in whole)} in all"
        )
    judged = [_at_theory(whole, tuning)] if tuning.theory is not None else []
    return [*judged, _tuned(whole, tuning)]


def _joined(runs: list[Finals]) -> list[Finals]:
    """One run a configuration; replicates that were trials of their own are put together."""
    groups: dict[Hashable, list[Finals]] = {}
    for nested in runs:
        run = Finals(_flat(nested.config), nested.losses, nested.minimum)
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
        joined.append(Finals(config, losses, group[0].minimum))
        rows.append([number for run in group for number in _numbers(run)])
    lengths = {len(run.losses) for run in joined}
    if len(lengths) > 1:
        raise ConfigError(f"runs must have equally many replicates, got {sorted(lengths)}")
    if any(numbers != rows[0] for numbers in rows):
        raise ConfigError("runs must have the same replicates, and some lack one that others have")
    return joined


def _numbers(run: Finals) -> range:
    """The numbers of a run's replicates."""
    first = int(run.config.get("replicate") or 0)
    return range(first, first + len(run.losses))


def _flat(config: Mapping[str, Any]) -> Point:
    """Nested settings with dots in their names: ``problem.dim``."""
    found: Point = {}
    for key, value in config.items():
        inner = _flat(value) if isinstance(value, Mapping) else None
        found |= {key: value} if inner is None else {f"{key}.{k}": v for k, v in inner.items()}
    return found


def _key(config: Mapping[str, Any], but: Sequence[str]) -> Hashable:
    return tuple(sorted((k, str(v)) for k, v in config.items() if k not in but))


def _has_theory_step(config: Mapping[str, Any]) -> bool:
    return config.get("step", THEORY) == THEORY and config.get("eta") in (None, 1)


def _at_theory(runs: list[Finals], tuning: Tuning) -> Field:
    """Runs at the theory's value, without the rows that choose, so that both steps are equal."""
    kept = [run for run in runs if run.config.get(tuning.over) == _theory(run, tuning)]
    return Field(THEORY, [_judging(run, tuning) for run in kept])


def _theory(run: Finals, tuning: Tuning) -> float | None:
    if isinstance(tuning.theory, dict):
        return tuning.theory.get(str(run.config.get("estimator")))
    return tuning.theory


def _tuned(runs: list[Finals], tuning: Tuning) -> Field:
    """For each configuration the value with the lowest mean over the rows that choose."""
    groups: dict[Hashable, list[Finals]] = {}
    for run in runs:
        groups.setdefault(_key(run.config, (tuning.over,)), []).append(run)
    chosen: list[Finals] = []
    remarks: dict[int, str] = {}
    for group in groups.values():
        group.sort(key=lambda run: float(run.config[tuning.over]))
        at = int(np.argmin([_mean(run.losses[: tuning.replicates]) for run in group]))
        end = "largest" if at == len(group) - 1 else "smallest" if at == 0 else None
        remark = f"{tuning.over} {group[at].config[tuning.over]:g}"
        if end and len(group) > 1:
            remark += f", the {end} tried: a better one may lie beyond"
        remarks[len(chosen)] = remark
        chosen.append(_judging(group[at], tuning))
    return Field(TUNED, chosen, remarks)


def _mean(losses: Sequence[float]) -> float:
    """The mean, without overflow where single losses are near the largest number."""
    return float((np.asarray(losses, float) / len(losses)).sum())


def _judging(run: Finals, tuning: Tuning) -> Finals:
    """The run without its tuned setting and without the rows that chose it."""
    config = {k: v for k, v in run.config.items() if k != tuning.over}
    return Finals(config, run.losses[tuning.replicates :], run.minimum)
