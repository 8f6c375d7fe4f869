"""Count the calls of a user's function for one trial, in whichever process it is called."""

from __future__ import annotations

from pathlib import Path

from zotune.core.calls import CallCount
from zotune.objectives import AnyObjective
from zotune.objectives.callables import CallableObjective

Place = tuple[str, str]
"""The folder of all counts of a launch, and the id of a trial."""


def counted(objective: AnyObjective, place: Place | None) -> AnyObjective:
    """The same objective, whose calls are counted from now on if it is a user's function."""
    if place is not None and isinstance(objective, CallableObjective):
        objective.on_calls = CallCount(Path(place[0]), place[1])
    return objective
