"""The leading configuration after a share of the budget, over all problem instances."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zotune.core.settings import PROBLEM, label
from zotune.results.configurations import Configuration, measure_of, searched

SHARES = (0.025, 0.1, 1.0)
"""Shares of the budget; for the paper's 20 000 these are 500, 2000 and 20 000."""


@dataclass(frozen=True)
class Leader:
    """The best configuration at one spent budget, and the second best."""

    spent: int
    name: str
    value: float
    """The geometric mean over instances; the mean if a value is not positive."""
    instances: int
    second: str
    ratio: float | None
    """Ratio of the second value to the first; None if a value is not positive."""


def leaders(some: Sequence[Configuration]) -> Iterator[Leader]:
    """The leader at each share of the budget, among configurations with all instances."""
    if any(one.aim.is_max for one in some):
        return
    keys = [key for key in searched(some) if not key.startswith(PROBLEM)]
    groups: defaultdict[str, list[Configuration]] = defaultdict(list)
    for one in some:
        groups[name_of(one, keys)].append(one)
    most = max(map(len, groups.values()), default=0)
    whole = {name: group for name, group in groups.items() if len(group) == most}
    if len(whole) < 2:
        return
    measure, budget = measure_of(some), min(one.budget for one in some)
    for spent in sorted({max(1, round(share * budget)) for share in SHARES}):
        values = {name: _value(group, measure, spent) for name, group in whole.items()}
        known = {name: value for name, value in values.items() if value is not None}
        if len(known) < 2:
            continue
        first, second = sorted(known, key=lambda name: known[name])[:2]
        ratio = known[second] / known[first] if known[first] > 0 else None
        yield Leader(spent, first, known[first], most, second, ratio)


def name_of(one: Configuration, keys: Sequence[str]) -> str:
    """A label of a configuration by some settings: ``align q=10 update=lbfgs``."""
    return label({key: one.settings[key] for key in keys if key in one.settings})


def _value(group: Sequence[Configuration], measure: str, spent: int) -> float | None:
    """The mean over instances of the last known value at a spent budget."""
    values = [_at(one, measure, spent) for one in group]
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < len(group):
        return None
    if min(known) > 0:
        return math.exp(sum(map(math.log, known)) / len(known))
    return sum(known) / len(known)


def _at(one: Configuration, measure: str, spent: int) -> float | None:
    points = one.points
    if measure not in points:
        return None
    values = points[measure].to_numpy(dtype=float)
    before = values[(points["spent"].to_numpy() <= spent) & (values == values)]  # without NaN
    return float(before[-1]) if len(before) else None
