"""Ray without its start-up noise, telemetry and warnings; Optuna without its news."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stdout,
    suppress,
)
from importlib import import_module
from typing import Any

from zotune.core.folders import private_folder
from zotune.study.tokens import cluster_token, own_token, set_variables

SILENCE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "TUNE_WARN_SLOW_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "100000",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000",
}
BREAKPOINT = "PYTHONBREAKPOINT"
"""What Ray sets in the process that starts it, and leaves there."""
STORE_BYTES = 256 * 2**20
"""The object store of a Ray of this machine; studies put next to nothing in it."""
NOT_NEEDED = ("start_monitor", "start_log_monitor", "start_api_server")
"""How Ray starts its autoscaler, its log monitor and its dashboard; a study needs none of them."""
SOCKET_BYTES = 70
"""Length of what Ray adds to its folder for the paths of its sockets, which end at 107 bytes."""


def silence() -> None:
    """Set what Ray reads when it is imported; what the user has set stays."""
    for key, value in SILENCE.items():
        os.environ.setdefault(key, value)


@contextmanager
def ray_running(address: str | None = None, *, cpus: int | None = None) -> Iterator[None]:
    """A connected Ray: the one this process has, a cluster's, or a new one of this machine.

    A new one accepts only its own processes, and keeps its files from other users.
    """
    with _silenced(), _quiet_loggers():
        import ray

        if ray.is_initialized():
            yield
            return
        from zotune.study.reaching import LOCAL, require_cluster

        cluster = require_cluster(address)
        with _joining(cluster) if cluster else _own():
            # Tune's import takes as long as Ray's start, most of which is waiting.
            threading.Thread(target=_import_tune, daemon=True).start()
            ray.init(
                address=cluster or LOCAL,
                log_to_driver=False,
                logging_level=logging.ERROR,
                num_cpus=cpus,
                **({} if cluster else _own_options()),
            )
            try:
                yield
            finally:
                ray.shutdown()


def _import_tune() -> None:
    """Import Ray Tune; whoever needs it is told what is wrong with it."""
    with suppress(Exception):
        import_module("ray.tune")


def local_ray(*, cpus: int | None = None) -> AbstractContextManager[None]:
    """A Ray of this machine for a Tuner of your own, which nobody else can use.

    Ray's servers listen on all interfaces. This one accepts only processes that have its random
    token, keeps its files from other users, and joins no cluster that happens to run here. If this
    process has a Ray already, that one is used as it is.

    Args:
        cpus: that trials may take; all of this machine unless given.

    Returns:
        A context; Ray ends with it, and the environment is as it was.

    >>> with zotune.local_ray(cpus=2):  # doctest: +SKIP
    ...     results = tune.Tuner(zotune.ZOTrainable, param_space=space).fit()
    """
    return ray_running(cpus=cpus)


def _joining(cluster: str) -> AbstractContextManager[None]:
    """The token that a cluster requires; Ray's client and packages have their own ways."""
    from zotune.study.reaching import AUTO

    return nullcontext() if cluster == AUTO or "://" in cluster else cluster_token(cluster)


@contextmanager
def _own() -> Iterator[None]:
    """A new Ray of this machine: protected by a token, and with no process that is not needed."""
    with own_token(), _few_processes():
        yield


@contextmanager
def _few_processes() -> Iterator[None]:
    """Start Ray without its autoscaler, log monitor and dashboard: a third of its start.

    ``ray.init`` has no options for them. What a later Ray no longer has is passed over.
    """
    from ray._private.node import Node

    replaced = {name: Node.__dict__[name] for name in NOT_NEEDED if name in Node.__dict__}
    for name in replaced:
        setattr(Node, name, lambda node, **options: None)
    try:
        yield
    finally:
        for name, method in replaced.items():
            setattr(Node, name, method)


def _own_options() -> dict[str, Any]:
    return {
        "include_dashboard": False,
        # Tune gives its workers an environment of their own, and takes none that is started before.
        "_system_config": {"prestart_worker_first_driver": False},
        "object_store_memory": STORE_BYTES,
        "_temp_dir": str(private_folder(SOCKET_BYTES) / "ray"),
    }


@contextmanager
def _silenced() -> Iterator[None]:
    """``silence`` for a while; the environment is as it was afterwards."""
    before = {key: os.environ.get(key) for key in (*SILENCE, BREAKPOINT)}
    silence()
    try:
        yield
    finally:
        set_variables(before)


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
