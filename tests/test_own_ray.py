"""The Ray that zotune starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import _raylet
from ray._private import services
from ray._private.node import Node
from ray._private.ray_constants import PROCESS_TYPE_DASHBOARD_AGENT, PROCESS_TYPE_RUNTIME_ENV_AGENT

from tests.servers import wait_for
from zotune.clusters import idle_agent as idle
from zotune.clusters.own_ray import (
    ATTEMPTS,
    COMMAND,
    LOCAL,
    NOT_NEEDED,
    _wait_for_node,
    few_processes,
    idle_agent,
    own_group,
    seen_at_once,
    started,
)
from zotune.core.processes import children
from zotune.errors import ZotuneError


def test_ray_still_has_the_processes_that_are_left_out() -> None:
    assert [name for name in NOT_NEEDED if not callable(getattr(Node, name, None))] == []


def test_processes_are_left_out_of_a_ray_that_we_start_and_of_no_other() -> None:
    before = {name: getattr(Node, name) for name in NOT_NEEDED}
    with few_processes():
        node = Node.__new__(Node)
        assert node.start_monitor() is None
        assert node.start_api_server(include_dashboard=False, raise_on_failure=False) is None
    assert {name: getattr(Node, name) for name in NOT_NEEDED} == before


def test_processes_of_our_ray_are_in_groups_of_their_own() -> None:
    """A signal to the group of a command must not end the servers under it."""
    before = services.ConsolePopen
    with own_group():
        child = services.ConsolePopen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
        child.communicate(b"\n")
    assert services.ConsolePopen is before


def test_a_start_that_fails_leaves_ray_as_it_was() -> None:
    before = Node.start_monitor
    with pytest.raises(RuntimeError, match="no start"):
        _fail_to_start()
    assert Node.start_monitor is before


def _fail_to_start() -> None:
    with few_processes():
        raise RuntimeError("no start")


@pytest.mark.parametrize("failures", [1, ATTEMPTS])
def test_a_ray_that_starts_too_slowly_is_tried_again_and_leaves_no_process(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def slow(**options: Any) -> None:
        if len(begun) < failures:
            begun.append(pretended_server("import time; time.sleep(600)"))
            raise Exception("The current node timed out during startup. This could happen …")

    monkeypatch.setattr(ray, "init", slow)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    if failures < ATTEMPTS:
        with started(LOCAL):
            pass
    else:
        with pytest.raises(ZotuneError, match="did not start within 30 seconds, 3 times"):
            started(LOCAL).__enter__()
    assert [process.wait() for process in begun] == [-9] * failures
    assert not {process.pid for process in begun} & {child.number for child in children()}


def pretended_server(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["raylet", "-c", code], executable=sys.executable)


def test_what_is_not_ray_s_own_outlives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "init", lambda **options: None)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with started(LOCAL):
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        server = pretended_server("import time; time.sleep(600)")
    assert server.wait() == -9
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.slow
def test_agents_that_do_not_notice_the_end_of_their_ray_end_with_it(tmp_path: Path) -> None:
    script = tmp_path / "ending.py"
    script.write_text(ENDING)
    told = tmp_path / "agents"  # not a pipe, which a process that is left would hold open
    with told.open("w") as file:
        subprocess.run([sys.executable, script], stdout=file, check=True)
    numbers = [int(word) for word in told.read_text().split()]
    assert len(numbers) >= 2
    assert [number for number in numbers if Path(f"/proc/{number}").exists()] == []


@pytest.mark.slow
def test_nothing_of_ray_outlives_a_driver_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    told = tmp_path / "processes"
    with told.open("w") as file:
        assert subprocess.run([sys.executable, script], stdout=file).returncode == -signal.SIGKILL
    numbers = [int(word) for word in told.read_text().split()]
    assert len(numbers) >= 4
    gone = lambda: not [one for one in numbers if Path(f"/proc/{one}").exists()]  # noqa: E731
    wait_for(gone, 20)  # Ray's own agent takes a minute


KILLED = """
import os, signal, time
import ray
from zotune.clusters.own_ray import SERVERS, own_ray
from zotune.core.processes import children, descendants

with own_ray(cpus=1):
    ray.get(ray.remote(lambda: 1).remote())
    time.sleep(4)  # every process is there, and has been seen
    for one in descendants(child for child in children() if child.program in SERVERS):
        print(one.number, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


ENDING = """
import os, signal
from zotune.clusters.own_ray import SERVERS, own_ray
from zotune.core.processes import children, descendants

with own_ray(cpus=1):
    servers = [child for child in children() if child.program in SERVERS]
    agents = [one for one in descendants(servers) if one not in servers]
    for agent in agents:
        os.kill(agent.number, signal.SIGSTOP)  # as one that is still being started
        print(agent.number)
"""


def test_a_node_that_is_there_is_seen_at_the_first_look(
    shared_ray: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missed(seconds: float) -> None:
        raise AssertionError("the node was not seen")

    monkeypatch.setattr("zotune.clusters.own_ray.sleep", missed)
    here = ray.get_runtime_context()
    _wait_for_node(here.gcs_address, here.get_node_id())
    with pytest.raises(AssertionError, match="was not seen"):
        _wait_for_node(here.gcs_address, "0" * 56)


def test_ray_looks_in_its_own_way_afterwards() -> None:
    before = services.get_node
    with seen_at_once():
        assert services.get_node is not before
    assert services.get_node is before


def test_a_small_process_stands_in_for_the_dashboards_agent_and_for_no_other() -> None:
    before = getattr(services, COMMAND)
    with idle_agent():
        build = getattr(services, COMMAND)
        assert build(PROCESS_TYPE_DASHBOARD_AGENT, "")[-1] == idle.__file__
        other = build(PROCESS_TYPE_RUNTIME_ENV_AGENT, "")
    assert getattr(services, COMMAND) is before
    assert other == before(PROCESS_TYPE_RUNTIME_ENV_AGENT, "")


def test_it_says_what_ray_waits_for_and_ends_with_its_parent(tmp_path: Path) -> None:
    assert sorted(idle.PORTS) == sorted(
        (
            _raylet.METRICS_AGENT_PORT_NAME,  # type: ignore[attr-defined]
            _raylet.METRICS_EXPORT_PORT_NAME,  # type: ignore[attr-defined]
            _raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME,  # type: ignore[attr-defined]
        )
    )
    flags = ["agent.py", f"--session-dir={tmp_path}", "--node-id=abc", "--minimal"]
    words = [sys.executable, "-I", "-S", idle.__file__, *flags]
    code = (
        "import subprocess, sys; child = subprocess.Popen(sys.argv[1:]);"
        "print(child.pid, flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, *words], **pipes) as parent:  # type: ignore[call-overload]
        agent = Path("/proc", parent.stdout.readline().decode().strip())
        wait_for(lambda: len([*tmp_path.glob("*_port_abc")]) == 3)
        assert {file.read_text() for file in tmp_path.glob("*_abc")} == {"-1"}
        assert agent.exists()
        parent.kill()
    wait_for(lambda: not agent.exists() or ") Z " in (agent / "stat").read_text())


def test_the_agent_of_our_ray_imports_nothing(shared_ray: None) -> None:
    commands = [
        file.read_bytes().split(b"\0") for file in Path("/proc").glob("[0-9]*/cmdline") if file
    ]
    raylet = ray.get_runtime_context().get_node_id().encode()
    ours = [words for words in commands if b"--node-id=" + raylet in words]
    agents = [words for words in ours if any(b"dashboard/agent.py" in word for word in words)]
    assert [words[1:4] for words in agents] == [[b"-I", b"-S", idle.__file__.encode()]]
