"""Start Ray without start-up messages, telemetry and warnings; silence Optuna's messages."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stdout,
    suppress,
)
from importlib import import_module

from zotune.clusters.own_ray import own_ray, quiet_ray, silence, started
from zotune.clusters.tokens import cluster_token

__all__ = [
    "answer_kept",
    "callbacks_uncounted",
    "local_ray",
    "quiet_optuna",
    "ray_running",
    "silence",
]


@contextmanager
def ray_running(address: str | None = None, *, cpus: int | None = None) -> Iterator[None]:
    """Connect to Ray: that of this process, a cluster, or a new local one.

    A new one accepts only its own processes, and its files are private to the user.
    """
    with quiet_ray():
        import ray

        from zotune.study.reaching import require_cluster

        # Importing Tune takes as long as starting Ray, which is mostly waiting.
        threading.Thread(target=_import_tune, daemon=True).start()
        cluster = None if ray.is_initialized() else require_cluster(address)
        if cluster is None:
            with own_ray(cpus=cpus):
                yield
        else:
            with _joining(cluster), started(cluster, cpus=cpus):
                yield


def _import_tune() -> None:
    """Import Ray Tune ahead of time; errors are raised by the later regular import."""
    with suppress(Exception):
        import_module("ray.tune")


def local_ray(*, cpus: int | None = None) -> AbstractContextManager[None]:
    """A private local Ray for a Tuner of your own.

    Ray's servers listen on all interfaces. This one accepts only processes that have its random
    token, keeps its files private to the user, and does not join a cluster running on this machine.
    If this process is connected to Ray already, that Ray is used.

    Args:
        cpus: number of CPUs for trials; default: all of this machine.

    Returns:
        A context; at its end Ray is stopped and the environment is restored.

    >>> with zotune.local_ray(cpus=2):  # doctest: +SKIP
    ...     results = tune.Tuner(zotune.ZOTrainable, param_space=space).fit()
    """
    return ray_running(cpus=cpus)


def _joining(cluster: str) -> AbstractContextManager[None]:
    """The token that a cluster requires; Ray's client and packages handle it themselves."""
    from zotune.study.reaching import AUTO

    return nullcontext() if cluster == AUTO or "://" in cluster else cluster_token(cluster)


@contextmanager
def callbacks_uncounted() -> Iterator[None]:
    """Disable Tune's counting of callbacks, which imports MLflow and takes seconds.

    It is for telemetry, which is off. Names that a later Ray no longer has are ignored.
    """
    from ray.air._internal import usage

    counted = usage.__dict__.get("tag_callbacks")
    if counted is None:
        yield
        return
    usage.tag_callbacks = lambda callbacks: False
    try:
        yield
    finally:
        usage.tag_callbacks = counted


def answer_kept(wanted: bool) -> AbstractContextManager[object]:
    """Keep stdout for machine-readable output; Ray prints messages about dead nodes there."""
    return redirect_stdout(sys.stderr) if wanted else nullcontext()


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Let Optuna log warnings only within the context."""
    from optuna import logging as optuna_logging

    level = optuna_logging.get_verbosity()
    optuna_logging.set_verbosity(max(level, optuna_logging.WARNING))
    try:
        yield
    finally:
        optuna_logging.set_verbosity(level)
