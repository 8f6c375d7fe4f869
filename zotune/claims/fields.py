"""Fields of runs: every configuration at one step size, with the values that judge it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np

from zotune.claims.claim import Tuning
from zotune.claims.measures import Measure
from zotune.claims.refining import neighbours
from zotune.claims.runs import Compared, Finals, Point, compared, key_of, without
from zotune.errors import ConfigError

THEORY, TUNED, AS_RUN = "theory", "tuned", "as run"


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
    scale, whole, units = compared(runs, measure, across)
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
        groups.setdefault(key_of(run.config, (tuning.over,)), []).append(run)
    chosen: list[Compared] = []
    remarks: dict[int, str] = {}
    for group in groups.values():
        group.sort(key=lambda run: float(run.config[tuning.over]))
        centres = [measure.centre(run.values[: tuning.replicates]) for run in group]
        at = int(np.argmin(centres))
        remarks[len(chosen)] = _remark(group, centres, at, tuning.over)
        chosen.append(_judging(group[at], tuning))
    return chosen, remarks


def _remark(group: Sequence[Compared], centres: Sequence[float], at: int, over: str) -> str:
    """The chosen value, and where a better one may lie that was not tried."""
    values = [float(run.config[over]) for run in group]
    text = f"{over} {values[at]:g}"
    if len(values) == 1:
        return text
    if not isfinite(centres[at]):
        return f"{text}, at which tuning runs diverge, as at all others"
    end = "largest" if at == len(values) - 1 else "smallest" if at == 0 else None
    if end:
        text += f", the {end} tried: a better one may lie beyond"
    beside = neighbours(values, centres)
    if beside:
        said = (
            f"{values[n]:g} {'ends higher' if isfinite(centres[n]) else 'diverges'}" for n in beside
        )
        text += f", where {' and '.join(said)}: a better one may lie between"
    return text


def _judging(run: Compared, tuning: Tuning) -> Compared:
    """The run without its tuned setting and without the values that chose it."""
    left = run.values[tuning.replicates :]
    return replace(run, config=without(run.config, tuning.over), values=left)
