"""Check quickly that a Ray cluster answers at an address; Ray itself would retry for a minute."""

from __future__ import annotations

import socket
from importlib.util import find_spec

from zotune.clusters.tokens import require_token
from zotune.study.launch import LaunchError

LOCAL, AUTO = "local", "auto"
CLIENT, CLIENT_PORT = "ray", 10001
"""The scheme of addresses of Ray's client, and the default port of its server."""
WITHIN = 5.0
"""Connection timeout in seconds."""


def require_cluster(address: str | None) -> str | None:
    """Check that a cluster answers and accepts our token; return its address, None: this machine.

    Args:
        address: ``host:port`` of a head node; ``ray://host:port`` of a client's server; ``auto``
            for the cluster that Ray finds by itself; None or ``local`` for this machine.
    """
    found = _found_by_ray() if address == AUTO else address
    if found == LOCAL:
        return None
    if found is None or found == AUTO:
        return found
    kind, _, place = found.rpartition("://")
    if kind not in ("", CLIENT, "http", "https") and find_spec(kind.partition(".")[0]):
        return found  # a scheme that another package handles
    host, colon, port = place.rpartition(":")
    if kind == CLIENT and not colon:
        host, port = place, str(CLIENT_PORT)
    if kind not in ("", CLIENT) or not host or not port.isdigit() or int(port) > 65535:
        raise LaunchError(
            f"--address must be host:port, ray://host:port, auto or local, got {found!r}"
        )
    _require_answer(found, host.strip("[]"), int(port), is_head=kind != CLIENT)
    return found


def _found_by_ray() -> str:
    """The address for ``auto``: RAY_ADDRESS, or a cluster that was started on this machine.

    Returns ``auto`` itself if Ray's API for finding one has changed.
    """
    try:
        from ray._private.services import get_ray_address_from_environment
    except ImportError:
        return AUTO
    try:
        return str(get_ray_address_from_environment(AUTO, None))
    except ConnectionError:
        raise LaunchError(
            "--address auto finds no Ray cluster on this machine, and RAY_ADDRESS names none; "
            "start one with `ray start --head`, or leave out --address"
        ) from None


def _require_answer(address: str, host: str, port: int, *, is_head: bool) -> None:
    try:
        socket.create_connection((host, port), WITHIN).close()
        if is_head:
            require_token(address)
        return
    except OSError as error:
        why = error.strerror or str(error)
    except UnicodeError:
        why = "this is not a valid host name"
    raise LaunchError(
        f"no Ray cluster answers at {address}: {why}; "
        "check --address, or leave it out to use this machine"
    )
