"""Determine the free memory, and choose the memory mode (fast or lean)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from zotune.config import FAST, LEAN, Config
from zotune.errors import ConfigError, OutOfMemory, ZotuneError
from zotune.estimators import ESTIMATORS
from zotune.steps import AUTO
from zotune.updates.motion import Motion
from zotune.weights.objective import WeightsObjective


def choose_memory(config: Config, objective: WeightsObjective) -> str:
    """``fast`` if twice the memory that it needs is free, else ``lean``; or as configured."""
    refuse_lean_vectors(config)
    wide = max(4, objective.dtype.itemsize)
    motion = Motion(config.named_update, ESTIMATORS[config.estimator])
    vectors = objective.dim * wide * len(motion.slots)
    needed = objective.dim * objective.dtype.itemsize + vectors
    free = available_bytes(objective.device)
    chosen = config.memory
    if chosen == AUTO:
        chosen = FAST if 2 * needed <= free else LEAN
    if vectors and (chosen == LEAN or vectors > free):
        raise ConfigError(
            f"{_who(config, motion)} keeps {len(motion.slots)} vectors of {objective.dim} numbers "
            f"({vectors / 2**20:.0f} MiB), and {free / 2**20:.0f} MiB are free; "
            "set update='sgd' with an estimator that keeps none"
            + (", or memory='fast'" if chosen == LEAN else "")
        )
    return chosen


def refuse_lean_vectors(config: Config) -> None:
    """Raise an error if ``memory`` is ``lean`` and the update or the estimator keeps vectors."""
    motion = Motion(config.named_update, ESTIMATORS[config.estimator])
    if config.memory == LEAN and motion.slots:
        raise ConfigError(
            f"memory 'lean' keeps no vectors beside the weights, and {_who(config, motion)} keeps "
            f"{len(motion.slots)}; set memory='fast', or update='sgd' with an estimator that keeps "
            "none"
        )


def _who(config: Config, motion: Motion) -> str:
    """The name of the update or estimator that keeps vectors, for messages."""
    update = f"update {motion.update.name!r}" if motion.update.slots else ""
    estimator = f"estimator {config.estimator!r}" if motion.remembers else ""
    return " and ".join(part for part in (update, estimator) if part)


@contextmanager
def saying_what_to_lower(config: Config) -> Iterator[None]:
    """Replace out-of-memory errors by one line that names the settings that save memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, ZotuneError) or not _is_about_memory(error):
            raise
        raise OutOfMemory(
            f"out of memory ({str(error).splitlines()[0][:120]}); set memory='lean', or lower "
            f"block_bytes (now {config.block_bytes}), the batch or the length of its sequences"
        ) from error


def _is_about_memory(error: Exception) -> bool:
    told = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        "alloc" in told and "memory" in told
    )


def available_bytes(device: torch.device) -> int:
    """Bytes that can still be allocated on a device without swapping."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return min(_of_the_machine(), _of_the_container())


def _of_the_machine() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if "MemAvailable" in line)
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _of_the_container() -> int:
    """Free bytes of the control group; a huge number if it has no limit."""
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((group / f"memory.{what}").read_text()) for what in ("max", "current"))
    except (OSError, ValueError):
        return 2**62
    return max(0, limit - used)
