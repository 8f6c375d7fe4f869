"""What decides which result is the best: a metric, and whether it is to be low or high."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from zotune.core.names import METRIC_TAG, MODE_TAG
from zotune.errors import ConfigError

MIN, MAX = "min", "max"


@dataclass(frozen=True)
class Aim:
    """The metric that is optimised, by the name under which it is recorded, and its direction."""

    metric: str = "loss"
    mode: str = MIN

    @classmethod
    def of(cls, told: Mapping[str, Any], metric: str = "metric", mode: str = "mode") -> Aim:
        """The aim in some notes; the loss if they have none."""
        return cls(str(told[metric]), str(told.get(mode, MIN))) if told.get(metric) else cls()

    @classmethod
    def of_tags(cls, tags: Mapping[str, str]) -> Aim:
        """The aim that the tags of a run say."""
        return cls.of(tags, METRIC_TAG, MODE_TAG)

    @property
    def tags(self) -> dict[str, str]:
        """The aim as tags of a run; none for the loss."""
        return {} if self == Aim() else {METRIC_TAG: self.metric, MODE_TAG: self.mode}

    @property
    def is_max(self) -> bool:
        """Whether high values are good."""
        return self.mode == MAX

    def cost(self, value: float | None) -> float | None:
        """The value so that the lowest is the best; None if there is no finite value.

        >>> Aim("accuracy", "max").cost(0.75), Aim().cost(0.75), Aim().cost(float("nan"))
        (-0.75, 0.75, None)
        """
        if value is None or not isfinite(value):
            return None
        return -value if self.is_max else value

    def __str__(self) -> str:
        return f"{'highest' if self.is_max else 'lowest'} {self.metric}"


def checked(metric: object, mode: object) -> tuple[str, str] | None:
    """The metric and mode of a user; None if neither is given."""
    if metric is None and mode is None:
        return None
    if not isinstance(metric, str) or not metric or mode not in (MIN, MAX):
        raise ConfigError(
            "metric and mode belong together: the name of a metric and 'min' or 'max', "
            f"got metric={metric!r}, mode={mode!r}; give both, or neither for the Tuner's own"
        )
    return metric, str(mode)
