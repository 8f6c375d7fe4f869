"""Addresses of clusters are tried by a socket, not by Ray."""

from __future__ import annotations

import socket

import pytest

from zotune.study.launch import LaunchError
from zotune.study.reaching import require_cluster


@pytest.fixture
def port() -> int:
    """One at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        number: int = closed.getsockname()[1]
    return number


@pytest.mark.parametrize("kind", ["", "ray://"])
def test_an_address_where_nothing_answers_is_refused_and_one_where_something_does_is_not(
    port: int, kind: str
) -> None:
    address = f"{kind}127.0.0.1:{port}"
    with pytest.raises(LaunchError, match=f"no Ray cluster answers at {address}: Connection ref"):
        require_cluster(address)
    with socket.create_server(("127.0.0.1", port)):
        require_cluster(address)


@pytest.mark.parametrize("host", ["host.invalid", "a..b"])
def test_a_host_that_is_not_known_is_refused(host: str) -> None:
    with pytest.raises(LaunchError, match=f"no Ray cluster answers at {host}:1: "):
        require_cluster(f"{host}:1")


@pytest.mark.parametrize("address", ["host", "host:", ":1", "host:99999", "http://h:1", "foo://h"])
def test_what_is_no_address_is_told_the_forms_of_one(address: str) -> None:
    with pytest.raises(LaunchError, match="--address must be host:port, ray://host:port, auto or"):
        require_cluster(address)


def test_this_machine_needs_no_answer_and_a_package_goes_its_own_way() -> None:
    require_cluster(None)
    require_cluster("local")
    require_cluster("zotune://anything")


def test_auto_is_the_cluster_that_ray_finds(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    with pytest.raises(LaunchError, match=f"no Ray cluster answers at 127.0.0.1:{port}"):
        require_cluster("auto")
    monkeypatch.setenv("RAY_ADDRESS", "local")
    require_cluster("auto")
    monkeypatch.delenv("RAY_ADDRESS")
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", set)
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda _: None)
    with pytest.raises(LaunchError, match="--address auto finds no Ray cluster on this machine"):
        require_cluster("auto")
