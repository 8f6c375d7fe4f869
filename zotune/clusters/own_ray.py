"""A Ray of this machine for one process, without its start-up noise, telemetry and warnings."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Any

from zotune.clusters import idle_agent as idle
from zotune.clusters.own_workers import inherited
from zotune.clusters.tokens import own_token, set_variables
from zotune.core.folders import private_folder
from zotune.core.processes import Process, children, descendants
from zotune.errors import ZotuneError

LOCAL = "local"
ATTEMPTS = 3
"""Starts of Ray on a machine that is too busy for the 30 seconds that it allows itself."""
TOO_SLOW = "timed out during startup"
STARTS_WITHIN, LOOK = 30.0, 0.02
"""Seconds that Ray allows itself for its start, and between two looks at it."""
SERVERS = ("gcs_server", "raylet")
"""Programs that ``ray.init`` starts beside us."""
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
"""How Ray starts its autoscaler, its log monitor and its dashboard; nobody needs them here."""
COMMAND = "_build_python_executable_command_memory_profileable"
"""The function of Ray that says by which command a process of its own is started."""
SOCKET_BYTES = 70
"""Length of what Ray adds to its folder for the paths of its sockets, which end at 107 bytes."""


def silence() -> None:
    """Set what Ray reads when it is imported; what the user has set stays."""
    for key, value in SILENCE.items():
        os.environ.setdefault(key, value)


@contextmanager
def quiet_ray() -> Iterator[None]:
    """Ray says nothing that zotune does not say itself; the environment is restored afterwards."""
    before = {key: os.environ.get(key) for key in (*SILENCE, BREAKPOINT)}
    silence()
    try:
        with _quiet_loggers():
            yield
    finally:
        set_variables(before)


@contextmanager
def own_ray(*, cpus: int | None = None) -> Iterator[None]:
    """The Ray that this process has; else a new one, which accepts only its own processes."""
    with quiet_ray():
        import ray

        if ray.is_initialized():
            yield
            return
        options = own_options()
        begun = started(LOCAL, cpus=cpus, **options)
        with own_token(), few_processes(), idle_agent(), seen_at_once(), inherited(), begun:
            yield


@contextmanager
def started(address: str, *, cpus: int | None = None, **options: Any) -> Iterator[None]:
    """A Ray of this process, which ends with the context."""
    import ray

    told = {"log_to_driver": False, "logging_level": logging.ERROR, "num_cpus": cpus, **options}
    before = children()
    try:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                ray.init(address=address, **told)
                break
            except Exception as error:
                if TOO_SLOW not in str(error):
                    raise
                _end(_servers(before))
                if attempt == ATTEMPTS:
                    raise ZotuneError(
                        f"Ray did not start within 30 seconds, {ATTEMPTS} times in a row; the "
                        "machine may be overloaded: end other work, or connect to a Ray that "
                        "runs already"
                    ) from None
        yield
    finally:
        own = _servers(before)
        ray.shutdown()
        _end(own)


def _servers(before: Collection[Process]) -> list[Process]:
    """Ray's servers that this process has started since, with their agents and workers."""
    new = (child for child in children() if child not in before)
    return descendants(child for child in new if child.program in SERVERS)


def _end(processes: Iterable[Process]) -> None:
    """End what a Ray has left: its agents notice a dead parent only once they have started."""
    for process in processes:
        process.kill()


@contextmanager
def few_processes() -> Iterator[None]:
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


@contextmanager
def idle_agent() -> Iterator[None]:
    """Start Ray with a small process in place of its dashboard's agent, which would serve nothing.

    What a later Ray no longer has is passed over.
    """
    from ray._private import services
    from ray._private.ray_constants import PROCESS_TYPE_DASHBOARD_AGENT

    build = services.__dict__.get(COMMAND)
    if build is None:
        yield
        return

    def command(component: str, *args: Any, **options: Any) -> list[str]:
        if component == PROCESS_TYPE_DASHBOARD_AGENT:
            return [sys.executable, "-I", "-S", idle.__file__]
        return list(build(component, *args, **options))

    setattr(services, COMMAND, command)
    try:
        yield
    finally:
        setattr(services, COMMAND, build)


@contextmanager
def seen_at_once() -> Iterator[None]:
    """Go on as soon as a starting Ray has its node; Ray itself looks once a second.

    What a later Ray no longer has is passed over.
    """
    from ray._private import services

    looked = services.__dict__.get("get_node")
    if looked is None:
        yield
        return

    def get_node(gcs_address: str, node_id: str) -> Any:
        with suppress(Exception):  # Ray's own look tells what is wrong
            _wait_for_node(gcs_address, node_id)
        return looked(gcs_address, node_id)

    services.get_node = get_node
    try:
        yield
    finally:
        services.get_node = looked


def _wait_for_node(gcs_address: str, node_id: str) -> None:
    """Wait until a node is known, or for as long as Ray would."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    client, deadline = GcsClient(address=gcs_address), monotonic() + STARTS_WITHIN
    while monotonic() < deadline:
        if any(known.hex() == node_id for known in client.get_all_node_info()):
            return
        sleep(LOOK)


def own_options() -> dict[str, Any]:
    """How a Ray of our own is started: small, and its files hidden from other users."""
    return {
        "include_dashboard": False,
        # Tune gives its workers an environment of their own, and takes none that is started before.
        "_system_config": {"prestart_worker_first_driver": False},
        "object_store_memory": STORE_BYTES,
        "_temp_dir": str(private_folder(SOCKET_BYTES) / "ray"),
    }


@contextmanager
def _quiet_loggers() -> Iterator[None]:
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


def resources() -> dict[str, float]:
    """What the connected Ray has in all, such as ``{"CPU": 2.0}``."""
    import ray

    there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return there
