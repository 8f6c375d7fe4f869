"""How far a trial may go, as the driver of its experiment tells its worker.

A study with a total reserves for each trial what it may spend before its next report. Where less
is left, the trial is told the position at which it ends, and its last block shrinks to that. The
winner of a race is told the position at which it goes on from a better point.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import ray
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put

if TYPE_CHECKING:
    from zotune.core.state import State
    from zotune.loop import Loop


def grant(experiment: str, trial: str, upto: int) -> None:
    """Let a trial of an experiment spend up to a position, the sum over its replicates."""
    if ray.is_initialized():
        _internal_kv_put(_key(experiment, trial), str(upto).encode())


def granted(experiment: str, trial: str) -> int | None:
    """The position up to which a trial may go; None where nobody has said."""
    found = _internal_kv_get(_key(experiment, trial)) if ray.is_initialized() else None
    return None if found is None else int(found)


def join(experiment: str, trial: str, position: int, file: str) -> None:
    """Let a trial go on from the best point in a checkpoint, once it has come to a position."""
    if ray.is_initialized():
        told = json.dumps([position, file]).encode()
        _internal_kv_put(_key(experiment, trial, "joins"), told)


def joins(experiment: str, trial: str) -> tuple[int, Path] | None:
    """Where a trial goes on from another point, and the checkpoint that has it; None: nowhere."""
    key = _key(experiment, trial, "joins")
    found = _internal_kv_get(key) if ray.is_initialized() else None
    if found is None:
        return None
    position, file = json.loads(found)
    return int(position), Path(file)


def _key(experiment: str, trial: str, what: str = "granted") -> bytes:
    """Two drivers on one cluster may have experiments of one name."""
    job = ray.get_runtime_context().get_job_id()
    return f"zotune:{what}:{job}:{experiment}:{trial}".encode()


def charged(loop: Loop, state: State) -> int:
    """What all replicates of a run have spent together."""
    return sum(
        lane.spent(one) * lane.config.replicates
        for lane, one in zip(loop.lanes, state.lanes, strict=True)
    )


def looked(loop: Loop, state: State) -> int:
    """How often all replicates of a run have only looked at the loss."""
    return sum(
        one.ledger.monitored * lane.config.replicates
        for lane, one in zip(loop.lanes, state.lanes, strict=True)
    )


def limit(loop: Loop, upto: int | None) -> None:
    """Let a loop end at a position rather than at its budget, where that comes first."""
    budget = loop.config.budget
    for lane in loop.lanes:
        lane.limit_to(budget if upto is None else min(budget, upto // lane.config.replicates))
