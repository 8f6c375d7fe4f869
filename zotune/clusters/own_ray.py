"""A private local Ray for one process, without start-up messages, telemetry and warnings."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
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
"""Number of attempts to start Ray, which has a fixed timeout of 30 seconds for its start."""
TOO_SLOW = "timed out during startup"
STARTS_WITHIN, LOOK = 30.0, 0.02
"""Ray's timeout for its start, and our polling interval, in seconds."""
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
"""The environment variable that Ray sets in the process that starts it, and does not remove."""
STORE_BYTES = 256 * 2**20
"""Size of the object store of a local Ray; studies store very little in it."""
NOT_NEEDED = ("start_monitor", "start_log_monitor", "start_api_server")
"""Ray's functions that start its autoscaler, log monitor and dashboard, which are not needed."""
COMMAND = "_build_python_executable_command_memory_profileable"
"""Ray's function that returns the command to start one of its processes."""
STARTER = "ConsolePopen"
"""Ray's subclass of ``subprocess.Popen`` that starts its processes."""
SOCKET_BYTES = 70
"""Length that Ray adds to its folder in the paths of sockets, which are limited to 107 bytes."""


def silence() -> None:
    """Set environment variables that Ray reads at its import, unless the user has set them."""
    for key, value in SILENCE.items():
        os.environ.setdefault(key, value)


@contextmanager
def quiet_ray() -> Iterator[None]:
    """Silence Ray within the context, and restore the environment afterwards."""
    before = {key: os.environ.get(key) for key in (*SILENCE, BREAKPOINT)}
    silence()
    try:
        with _quiet_loggers():
            yield
    finally:
        set_variables(before)


@contextmanager
def own_ray(*, cpus: int | None = None) -> Iterator[None]:
    """Use the Ray of this process, or start a new one that accepts only its own processes."""
    with quiet_ray():
        import ray

        if ray.is_initialized():
            yield
            return
        options = own_options()
        begun = started(LOCAL, cpus=cpus, **options)
        with ExitStack() as stack:
            for part in (own_token(), few_processes(), idle_agent(), seen_at_once(), inherited()):
                stack.enter_context(part)
            stack.enter_context(own_group())
            stack.enter_context(begun)
            yield


@contextmanager
def started(address: str, *, cpus: int | None = None, **options: Any) -> Iterator[None]:
    """Connect this process to Ray, until the context ends."""
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
    """Ray's servers that this process has started since ``before``, with their descendants."""
    new = (child for child in children() if child not in before)
    return descendants(child for child in new if child.program in SERVERS)


def _end(processes: Iterable[Process]) -> None:
    """Kill remaining processes of Ray: agents notice a dead parent only after they have started."""
    for process in processes:
        process.kill()


@contextmanager
def few_processes() -> Iterator[None]:
    """Start Ray without autoscaler, log monitor and dashboard, which saves a third of the time.

    ``ray.init`` has no options for this. Names that a later Ray no longer has are ignored.
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
    """Start Ray with a small process in place of its dashboard agent, which would serve nothing.

    Names that a later Ray no longer has are ignored.
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
def own_group() -> Iterator[None]:
    """Start Ray's servers in process groups of their own, so that only we end them.

    A signal to our group (``timeout``, a job scheduler, a closed terminal) would end them before we
    have kept the results, and we would wait a minute for servers that are gone. They still end with
    this process, by the kernel. Names that a later Ray no longer has are ignored.
    """
    from ray._private import services

    before = services.__dict__.get(STARTER)
    if before is None:
        yield
        return
    setattr(services, STARTER, partial(before, process_group=0))
    try:
        yield
    finally:
        setattr(services, STARTER, before)


@contextmanager
def seen_at_once() -> Iterator[None]:
    """Detect the node of a starting Ray quickly; Ray itself polls once per second.

    Names that a later Ray no longer has are ignored.
    """
    from ray._private import services

    looked = services.__dict__.get("get_node")
    if looked is None:
        yield
        return

    def get_node(gcs_address: str, node_id: str) -> Any:
        with suppress(Exception):  # Ray's own function below raises the error
            _wait_for_node(gcs_address, node_id)
        return looked(gcs_address, node_id)

    services.get_node = get_node
    try:
        yield
    finally:
        services.get_node = looked


def _wait_for_node(gcs_address: str, node_id: str) -> None:
    """Wait until a node is registered, at most for Ray's own timeout."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    client, deadline = GcsClient(address=gcs_address), monotonic() + STARTS_WITHIN
    while monotonic() < deadline:
        if any(known.hex() == node_id for known in client.get_all_node_info()):
            return
        sleep(LOOK)


def own_options() -> dict[str, Any]:
    """Options of a private Ray: small, and with files that other users cannot read."""
    return {
        "include_dashboard": False,
        # Tune's workers have their own environment, so prestarted workers would not be used.
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
    """Total resources of the connected Ray, such as ``{"CPU": 2.0}``."""
    import ray

    there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return there
