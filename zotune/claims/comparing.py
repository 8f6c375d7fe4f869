"""Translate a claim to pairs of configurations, with tolerances.

This depends only on the configurations, so the same functions validate a study's claims before it
runs and judge them afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, permutations
from math import log1p
from typing import Any, NamedTuple

from zotune.claims.claim import LARGEST, SMALLEST, Claim
from zotune.claims.runs import Point
from zotune.core import settings
from zotune.errors import ConfigError, nearest


class Pair(NamedTuple):
    """Two indices of configurations; the first is claimed to have no higher final loss."""

    lower: int
    higher: int
    tolerance: float = 0.0
    """How much higher it may be, as a difference of logarithms."""


def pairs(claim: Claim, points: Sequence[Point]) -> list[Pair]:
    """The comparisons of a claim among configurations; raises an error if it is invalid."""
    tolerance = log1p(claim.within or 0.0)
    if claim.compare is not None:
        lower = _single("lower", claim.where | claim.compare.lower, points)
        higher = _single("higher", claim.where | claim.compare.higher, points)
        if lower == higher:
            raise ConfigError("lower and higher are the same configuration")
        return [Pair(lower, higher)]
    if claim.best is not None:
        best = _single("best", claim.where | claim.best, points)
        rest = [at for at in _line(claim.where, list(claim.best), points) if at != best]
        found = [Pair(best, at, tolerance) for at in rest]
    else:
        key = str(claim.not_falling or claim.not_rising or claim.over)
        line = _ordered(key, _line(claim.where, [key], points), points)
        if claim.over:
            found = [Pair(a, b, tolerance) for a, b in permutations(line, 2)]
        else:
            line = line if claim.not_falling else line[::-1]
            found = [Pair(a, b, tolerance) for a, b in pairwise(line)]
    if not found:
        raise ConfigError("there is nothing to compare with; the space has one value only")
    return found


def searched(points: Sequence[Point]) -> list[str]:
    """Settings that have more than one value."""
    keys = dict.fromkeys(key for point in points for key in point)
    return [key for key in keys if len(_values(key, points)) > 1]


def label(point: Point, points: Sequence[Point]) -> str:
    """A readable label of a configuration, by the settings that differ: ``align q=100``."""
    return settings.label({key: point.get(key) for key in searched(points)})


def _single(side: str, conditions: Mapping[str, Any], points: Sequence[Point]) -> int:
    """The one configuration that meets the conditions."""
    found = _matching(conditions, points)
    open_ = [k for k in searched([points[at] for at in found]) if k not in conditions]
    if open_:
        raise ConfigError(f"{side} fits {len(found)} configurations; say which {open_[0]}")
    return found[0]


def _line(where: Mapping[str, Any], along: list[str], points: Sequence[Point]) -> list[int]:
    """The configurations that differ in these settings only."""
    for key in along:
        _known(key, points)
    found = _matching(where, points)
    open_ = [k for k in searched([points[at] for at in found]) if k not in (*where, *along)]
    if open_:
        values = ", ".join(map(str, _values(open_[0], [points[at] for at in found])))
        raise ConfigError(f"where must say which {open_[0]}, one of {values}")
    return found


def _ordered(key: str, line: list[int], points: Sequence[Point]) -> list[int]:
    """Sorted by value; names keep their order."""
    if all(_is_number(points[at][key]) for at in line):
        return sorted(line, key=lambda at: float(points[at][key]))
    return line


def _matching(conditions: Mapping[str, Any], points: Sequence[Point]) -> list[int]:
    """Configurations that meet all conditions; ``smallest`` and ``largest`` are applied last."""
    found = list(range(len(points)))
    for key, value in sorted(conditions.items(), key=lambda entry: _is_word(entry[1])):
        _known(key, points)
        values = _values(key, [points[at] for at in found])
        if _is_word(value) and all(map(_is_number, values)):
            value = (min if value == SMALLEST else max)(values, default=value)
        found = [at for at in found if points[at].get(key) == value]
        if not found:
            known = [str(v) for v in values]
            raise ConfigError(
                f"{key} {value!r} is not in the space{nearest(str(value), known)}; "
                f"it has {', '.join(known)}"
            )
    return found


def _known(key: str, points: Sequence[Point]) -> None:
    keys = list(dict.fromkeys(k for point in points for k in point))
    if key not in keys:
        raise ConfigError(
            f"{key!r} is not searched{nearest(key, keys)}; claims are about {', '.join(keys)}"
        )


def _values(key: str, points: Iterable[Point]) -> list[Any]:
    found: list[Any] = []
    for point in points:
        if key in point and point[key] not in found:
            found.append(point[key])
    return found


def _is_word(value: Any) -> bool:
    return value in (SMALLEST, LARGEST) if isinstance(value, str) else False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
