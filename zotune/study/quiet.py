"""Ray without its start-up noise, telemetry and warnings; Optuna without its news."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout

SILENCE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "TUNE_WARN_SLOW_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "100000",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000",
}
ALONE = {"RAY_AUTH_MODE": "disabled"}
"""For a Ray of this machine only, which nobody else can reach."""
STORE_BYTES = 256 * 2**20
"""The object store of a Ray of this machine; studies put next to nothing in it."""


def silence(address: str | None = None) -> None:
    """Set what Ray reads when it is imported; what the user has set stays."""
    for key, value in {**SILENCE, **({} if address else ALONE)}.items():
        os.environ.setdefault(key, value)


@contextmanager
def ray_running(address: str | None = None, *, cpus: int | None = None) -> Iterator[None]:
    """A connected Ray: the one this process has, a cluster's, or a new one of this machine."""
    silence(address)
    import ray

    if ray.is_initialized():
        with _quiet_loggers():
            yield
        return
    options = {} if address else {"include_dashboard": False, "object_store_memory": STORE_BYTES}
    with _quiet_loggers():
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            num_cpus=cpus,
            **options,  # type: ignore[arg-type]
        )
        try:
            yield
        finally:
            ray.shutdown()


def answer_kept(wanted: bool) -> AbstractContextManager[object]:
    """Keep stdout for an answer that a machine reads: Ray prints there which nodes have died."""
    return redirect_stdout(sys.stderr) if wanted else nullcontext()


@contextmanager
def _quiet_loggers() -> Iterator[None]:
    """Ray's loggers say nothing that zotune does not say itself."""
    loggers = [logging.getLogger(name) for name in ("ray", "ray.tune", "ray.train", "ray.data")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Optuna says nothing but warnings; its logger is as it was afterwards."""
    from optuna import logging as optuna_logging

    level = optuna_logging.get_verbosity()
    optuna_logging.set_verbosity(max(level, optuna_logging.WARNING))
    try:
        yield
    finally:
        optuna_logging.set_verbosity(level)
