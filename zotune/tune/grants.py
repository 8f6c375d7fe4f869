"""Budget limits that the driver of an experiment sends to the worker of a trial.

A study with a total reserves budget for each trial up to its next report. If less is left, the
worker is sent the position at which the trial ends, and the last block shrinks accordingly. The
winner of a race is sent the position at which it continues from a better point.
"""

from __future__ import annotations

import json
from pathlib import Path

from zotune.tune import driver_notes

GRANTED, JOINS = "granted", "joins"


def grant(experiment: str, trial: str, upto: int) -> None:
    """Let a trial of an experiment spend up to a position, the sum over its replicates."""
    driver_notes.leave(str(upto), GRANTED, experiment, trial)


def granted(experiment: str, trial: str) -> int | None:
    """The position up to which a trial may go; None if there is no limit."""
    found = driver_notes.read(GRANTED, experiment, trial)
    return None if found is None else int(found)


def join(experiment: str, trial: str, position: int, file: str) -> None:
    """Let a trial continue from the best point in a checkpoint once it reaches a position."""
    driver_notes.leave(json.dumps([position, file]), JOINS, experiment, trial)


def joins(experiment: str, trial: str) -> tuple[int, Path] | None:
    """The position at which a trial changes to another point, and its checkpoint; None: never."""
    found = driver_notes.read(JOINS, experiment, trial)
    if found is None:
        return None
    position, file = json.loads(found)
    return int(position), Path(file)
