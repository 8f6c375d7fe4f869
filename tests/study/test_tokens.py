"""Nobody else runs code in a Ray that we start; clusters with tokens are joined with the user's."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import ray

from tests.servers import PATIENCE, wait_for
from zotune.clusters.tokens import MODE, TOKEN, TOKEN_PATH

pytestmark = pytest.mark.slow
STUDY = """
name: long
problem: {name: quadratic, dim: 50}
budget: 100000000
report_every: 1000
space: {q: [1]}
"""
WRONG = "0" * 64
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}


@dataclass(frozen=True)
class Running:
    """A study that runs in another process, started by a user who has turned tokens off."""

    process: subprocess.Popen[bytes]
    home: Path
    address: str
    """Of its Ray, on an interface of this machine that others can reach."""
    token: str
    session: Path

    @property
    def files(self) -> Iterator[Path]:
        """What the study and its Ray have written."""
        found = [path for folder in (self.home, self.session) for path in folder.rglob("*")]
        return (path for path in found if path.is_file())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    if host.startswith("127."):
        pytest.skip("this machine has no address that others can reach")
    home = tmp_path_factory.mktemp("home")
    (home / "study.yaml").write_text(STUDY)
    (home / "other").write_text(WRONG)
    with (home / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "zotune.cli", "run", "study.yaml", "--tracking-uri", "none"],
            cwd=home,
            env=CLEAN | {"HOME": str(home), MODE: "disabled", TOKEN_PATH: str(home / "other")},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        reported = "results/long/*/*/result.json"
        wait_for(lambda: process.poll() is not None or any(home.glob(reported)))
        assert process.poll() is None
        gcs = _child(process.pid, "gcs_server")
        session = Path(_search("--session-dir=([^\0]+)", f"/proc/{gcs}/cmdline"))
        (port,) = session.glob("gcs_server_port_*")
        token = _search(f"{TOKEN}=([^\0]+)", f"/proc/{gcs}/environ")
        yield Running(process, home, f"{host}:{port.read_text()}", token, session)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _child(pid: int, name: str) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next(int(c) for c in children if name in Path(f"/proc/{c}/cmdline").read_text())


def _search(pattern: str, path: str) -> str:
    found = re.search(pattern, Path(path).read_text())
    return found.group(1) if found else "none"


STRANGER = """
    import sys
    import ray

    @ray.remote(num_cpus=0)
    def spy():
        return "let in"

    try:
        ray.init(address=sys.argv[1], log_to_driver=False)
        print(ray.get(spy.remote(), timeout=300))
    except (ConnectionError, ray.exceptions.AuthenticationError) as error:
        print(type(error).__name__)
"""
STRANGERS = {
    "authentication disabled": ({MODE: "disabled"}, "ConnectionError"),
    "a wrong token": ({MODE: "token", TOKEN: WRONG}, "ConnectionError"),
    "no token": ({}, "ConnectionError"),
    "tokens on, and no token": ({MODE: "token"}, "AuthenticationError"),
}


def test_a_stranger_is_refused_over_the_network(running: Running, tmp_path: Path) -> None:
    everybody = STRANGERS | {"the token": ({MODE: "token", TOKEN: running.token}, "let in")}
    once = {"HOME": str(tmp_path), "RAY_NUM_REDIS_GET_RETRIES": "1"}
    tried = {
        who: subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(STRANGER), running.address],
            env=CLEAN | once | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for who, (environment, _) in everybody.items()
    }
    answers = {
        who: process.communicate(timeout=PATIENCE)[0].strip() for who, process in tried.items()
    }
    assert answers == {who: answer for who, (_, answer) in everybody.items()}


def test_the_token_is_in_no_file_and_in_no_command_line(running: Running) -> None:
    secret = running.token.encode()
    assert not [path for path in running.files if secret in path.read_bytes()]
    assert not (running.home / ".ray").exists()
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in lines if secret in line]


def test_other_users_can_enter_neither_ray_s_folder_nor_the_launch(running: Running) -> None:
    (launch,) = running.home.glob("results/long/*")
    for folder in (running.session.parent.parent, launch):
        assert folder.stat().st_mode & 0o077 == 0
        assert folder.stat().st_uid == os.getuid()


REFUSALS = {
    "and there is none; set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, or write it to ": {},
    "and yours is another one; set RAY_AUTH_TOKEN, or correct ": {TOKEN: WRONG},
    "but RAY_AUTH_MODE=disabled turns tokens off; unset it": {MODE: "disabled"},
}


def test_a_cluster_that_requires_a_token_is_refused_in_one_line_without_it(
    running: Running, tmp_path: Path
) -> None:
    started = {
        why: subprocess.Popen(
            [sys.executable, "-m", "zotune.cli", "run", "smoke", "--address", running.address],
            cwd=tmp_path,
            env=CLEAN | {"HOME": str(tmp_path)} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for why, environment in REFUSALS.items()
    }
    for why, process in started.items():
        output, error = process.communicate(timeout=PATIENCE)
        assert (output, process.returncode) == ("", 2)
        (line,) = error.splitlines()
        message = f"zotune: the Ray cluster at {running.address} requires a token, {why}"
        assert line.startswith(message)
    assert not list(tmp_path.iterdir())


JOIN = """
    import os, sys
    import ray
    from zotune.study.quiet import ray_running

    before = dict(os.environ)
    with ray_running(sys.argv[1]):
        print(ray.get(ray.remote(num_cpus=0)(lambda: "joined").remote(), timeout=300))
    assert dict(os.environ) == before
"""


def test_a_cluster_is_joined_with_the_token_in_the_home_folder(
    running: Running, tmp_path: Path
) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(running.token)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(JOIN), running.address],
        env=CLEAN | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.stdout, done.stderr) == ("joined\n", "")


THEIRS = """
    import os
    import ray, zotune
    from ray._raylet import AuthenticationTokenLoader

    def token():
        return AuthenticationTokenLoader.instance().get_raw_token(ignore_auth_mode=True)

    before = dict(os.environ)
    with zotune.local_ray(cpus=1):
        ours = token()
        assert ours != "theirs" and len(ours) == 64
    assert dict(os.environ) == before
    assert token() == "theirs"
    ray.init(address="local", num_cpus=1, include_dashboard=False)
    assert token() == "theirs"
    print(ray.get(ray.remote(lambda: os.environ["RAY_AUTH_TOKEN"]).remote(), timeout=300))
"""


def test_the_next_ray_of_the_process_has_the_token_of_its_user(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(THEIRS)],
        env=CLEAN | {"HOME": str(tmp_path), MODE: "token", TOKEN: "theirs"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout == "theirs\n", done.stderr
