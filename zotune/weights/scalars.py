"""The scalar log: a seed and a few numbers per step, from which the weights can be rebuilt.

A step's update is Σ aᵢ uᵢ, and a direction uᵢ is a function of its address. The start weights, the
seed and the factors a therefore determine the weights: kilobytes for a model of any size. The rows
of an embedding that a step has moved follow from its mini-batch, which has an address, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from zotune.addresses import replicate_keys
from zotune.config import ALL
from zotune.core.files import write_whole
from zotune.core.names import SCALARS_FILE
from zotune.directions import DIRECTIONS
from zotune.errors import CheckpointError
from zotune.updates import UPDATES
from zotune.updates.motion import Motion
from zotune.weights.block import BlockCache
from zotune.weights.layout import Layout
from zotune.weights.objective import WeightsObjective
from zotune.weights.updating import Updater, WeightsMove

FORMAT = 3


@dataclass(frozen=True)
class ScalarLog:
    """All changes that a run has made to the weights."""

    seed: int
    replicate: int
    directions: str
    embedding_rows: str
    update: str
    momentum: float
    dim: int
    dtype: str
    device: str
    """Device type; CPUs and GPUs draw different random numbers."""
    factors: Sequence[Sequence[float]]
    """For each step, the factors a of Σ aᵢ uᵢ, preceded by η if the update is not linear in it.
    Empty if the step was rejected."""
    spread: float = 1.0
    """The spread of the estimates, for updates that use it."""

    def save(self, path: Path) -> Path:
        """Write the log as JSON, atomically; numbers are restored bit for bit."""
        return write_whole(path, json.dumps({"format": FORMAT} | asdict(self)).encode())

    @classmethod
    def load(cls, path: str | Path) -> ScalarLog:
        """Read a log from a file or a checkpoint's folder; raises an error for other files."""
        path = Path(path)
        path = path / SCALARS_FILE if path.is_dir() else path
        try:
            return cls(**_of_today(json.loads(path.read_bytes())))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{path} is not a scalar log that this zotune can read: {error}; it should be "
                f"{SCALARS_FILE} beside a checkpoint"
            ) from None


def _of_today(found: dict[str, Any]) -> dict[str, Any]:
    """The fields of a log of this format or of format 2, which had only momentum and plain descent.

    Under format 2, momentum also moved rows that a batch does not use, which it no longer does.
    """
    written = found.pop("format")
    if written == FORMAT:
        return found
    if written != 2:
        raise ValueError(f"its format is {written!r}, not {FORMAT} or 2")
    if found["momentum"]:
        raise ValueError(
            "it is of format 2 with momentum, which moved embedding rows that a batch does not see "
            "and no longer does; take the weights from the checkpoint beside it"
        )
    return {**found, "update": "sgd"}


@torch.no_grad()
def rebuild(objective: WeightsObjective, log: ScalarLog) -> None:
    """Apply a log to the start weights; gives the weights of the run bit for bit.

    No loss is evaluated; mini-batches are drawn only for the rows that they use.

    Args:
        objective: the objective of the run, with the start weights.
        log: the log of the run.
    """
    trained, device = objective.trained, objective.device
    here = (objective.dim, str(objective.dtype).removeprefix("torch."), device.type)
    if here != (log.dim, log.dtype, log.device):
        raise CheckpointError(
            f"the log belongs to {log.dim} weights in {log.dtype} on {log.device}, "
            f"got {here[0]} in {here[1]} on {here[2]}; give the run's start weights"
        )
    keys, batches, rounding = (
        replicate_keys(purpose, log.seed, [log.replicate])
        for purpose in ("directions", "batches", "rounding")
    )
    q = max(map(len, log.factors), default=1)
    cache = BlockCache(DIRECTIONS[log.directions], keys, device, dim=log.dim, q=q, may_keep=0)
    motion = Motion(UPDATES[log.update], coefficient=log.momentum, spread=log.spread, dim=log.dim)
    updater = Updater(trained, cache.width, rounding, motion.slots)
    layout = whole = Layout.of_all(trained, cache.width)
    for step, logged in enumerate(log.factors):
        if not logged:
            updater.clear()
            continue
        eta, factors = (1.0, logged) if motion.linear else (logged[0], logged[1:])
        if log.embedding_rows != ALL:
            layout = whole.seen(objective.touched(objective.batch(batches, step)))
        block = cache.block(step, len(factors), layout.dim)
        moved = None if motion.plain else motion
        updater.move(WeightsMove(layout, block, step, factors, moved, eta))
