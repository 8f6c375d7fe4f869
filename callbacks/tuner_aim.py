"""The metric and mode of the Tuner that a callback belongs to.

Ray gives them to its own reporters, but not to callbacks. They are in the frame of
``ray.tune.run``, which calls the callbacks' ``setup`` also for a Tuner that is restored: as
arguments of the Tuner, or in its search algorithm or its scheduler.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from zotune.core.aim import MAX, MIN

ANONYMOUS = "_metric"
"""Ray's name of a metric where none is known."""


def tuner_aim() -> tuple[str, str] | None:
    """The metric and mode of the Tuner that is calling; None if it has no single metric."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "run" and frame.f_globals.get("__name__") == "ray.tune.tune":
            return next(_named(frame.f_locals), None)
        frame = frame.f_back
    return None


def _named(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What the arguments of a Tuner, its searcher and its scheduler say, in this order."""
    search, scheduler = run.get("search_alg"), run.get("scheduler")
    searcher = getattr(search, "searcher", search)
    told = [
        (run.get("metric"), run.get("mode")),
        (getattr(searcher, "metric", None), getattr(searcher, "mode", None)),
        (getattr(scheduler, "metric", None), getattr(scheduler, "_mode", None)),
    ]
    for metric, mode in told:
        if isinstance(metric, str) and metric != ANONYMOUS and mode in (MIN, MAX):
            yield metric, mode
