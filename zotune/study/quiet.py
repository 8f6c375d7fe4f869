"""Ray without its start-up noise, telemetry and warnings; Optuna without its news."""

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
    """A connected Ray: the one this process has, a cluster's, or a new one of this machine.

    A new one accepts only its own processes, and keeps its files from other users.
    """
    with quiet_ray():
        import ray

        from zotune.study.reaching import require_cluster

        # Tune's import takes as long as Ray's start, most of which is waiting.
        threading.Thread(target=_import_tune, daemon=True).start()
        cluster = None if ray.is_initialized() else require_cluster(address)
        if cluster is None:
            with own_ray(cpus=cpus):
                yield
        else:
            with _joining(cluster), started(cluster, cpus=cpus):
                yield


def _import_tune() -> None:
    """Import Ray Tune ahead of time; if that fails, the import that needs it says why."""
    with suppress(Exception):
        import_module("ray.tune")


def local_ray(*, cpus: int | None = None) -> AbstractContextManager[None]:
    """A Ray of this machine for a Tuner of your own, which no other process can use.

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
def callbacks_uncounted() -> Iterator[None]:
    """Tune counts callbacks for its telemetry, which is off, and imports MLflow for it: seconds.

    What a later Ray no longer has is passed over.
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
    """Keep stdout for an answer that a machine reads: Ray prints there which nodes have died."""
    return redirect_stdout(sys.stderr) if wanted else nullcontext()


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
