"""How far a trial may go, as the driver of its experiment tells its worker.

A study with a total reserves for each trial what it may spend before its next report. Where less
is left, the trial is told the position at which it ends, and its last block shrinks to that. The
winner of a race is told the position at which it goes on from a better point.
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
    """The position up to which a trial may go; None where nobody has said."""
    found = driver_notes.read(GRANTED, experiment, trial)
    return None if found is None else int(found)


def join(experiment: str, trial: str, position: int, file: str) -> None:
    """Let a trial go on from the best point in a checkpoint, once it has come to a position."""
    driver_notes.leave(json.dumps([position, file]), JOINS, experiment, trial)


def joins(experiment: str, trial: str) -> tuple[int, Path] | None:
    """Where a trial goes on from another point, and the checkpoint that has it; None: nowhere."""
    found = driver_notes.read(JOINS, experiment, trial)
    if found is None:
        return None
    position, file = json.loads(found)
    return int(position), Path(file)
