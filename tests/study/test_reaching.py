"""Addresses of clusters are tried before Ray joins them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

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
def test_an_address_where_nothing_answers_is_refused(port: int, kind: str) -> None:
    address = f"{kind}127.0.0.1:{port}"
    with pytest.raises(LaunchError, match=f"no Ray cluster answers at {address}: Connection ref"):
        require_cluster(address)


@pytest.mark.slow  # Ray waits ten seconds for an answer
def test_a_server_that_is_no_ray_is_refused_as_a_head_node(port: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", port)):
        assert require_cluster(f"ray://127.0.0.1:{port}") == f"ray://127.0.0.1:{port}"
        done = subprocess.run(
            [sys.executable, "-m", "zotune.cli", "run", "smoke", "--address", f"127.0.0.1:{port}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr.startswith(f"zotune: no Ray cluster answers at 127.0.0.1:{port}: Timed out")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("host", ["host.invalid", "a..b"])
def test_a_host_that_is_not_known_is_refused(host: str) -> None:
    with pytest.raises(LaunchError, match=f"no Ray cluster answers at {host}:1: "):
        require_cluster(f"{host}:1")


@pytest.mark.parametrize("address", ["host", "host:", ":1", "host:99999", "http://h:1", "foo://h"])
def test_what_is_no_address_is_told_the_forms_of_one(address: str) -> None:
    with pytest.raises(LaunchError, match="--address must be host:port, ray://host:port, auto or"):
        require_cluster(address)


def test_this_machine_needs_no_answer_and_a_package_goes_its_own_way() -> None:
    assert require_cluster(None) is None
    assert require_cluster("local") is None
    assert require_cluster("zotune://anything") == "zotune://anything"


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
