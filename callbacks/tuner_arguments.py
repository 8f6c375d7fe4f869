"""The metric, the mode and the constants of the Tuner that a callback belongs to.

Ray gives them to its own reporters, but not to callbacks. They are in the frame of
``ray.tune.run``, which calls the callbacks' ``setup`` also for a Tuner that is restored: as
arguments of the Tuner, or in its search algorithm or its scheduler.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from zotune.core.aim import MAX, MIN
from zotune.core.settings import flat

ANONYMOUS = "_metric"
"""Ray's name of a metric where none is known."""


def tuner_aim() -> tuple[str, str] | None:
    """The metric and mode of the Tuner that is calling; None if it has no single metric."""
    return next(_named(_arguments()), None)


def tuner_constants() -> list[str]:
    """Dotted names of the settings in the Tuner's space that it does not search.

    Searchers hand them to every trial together with what they have drawn.
    """
    from ray.tune.search.sample import Domain

    space = _arguments().get("config")
    settings = flat(space) if isinstance(space, Mapping) else ()
    return [
        key
        for key, value in settings
        if not isinstance(value, Domain) and not key.endswith(".grid_search")
    ]


def _arguments() -> Mapping[str, Any]:
    """The variables of the ``ray.tune.run`` that is calling; empty if there is none."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "run" and frame.f_globals.get("__name__") == "ray.tune.tune":
            return frame.f_locals
        frame = frame.f_back
    return {}


def _named(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
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
