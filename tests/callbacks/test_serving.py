"""Studies in folders with any name are recorded, found again and served."""

from __future__ import annotations

import re
import shutil
import socket
import urllib.request
from http.client import HTTPConnection
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.instrument import plain_study
from tests.servers import PATIENCE
from zotune.callbacks.serving import PORT, free_port, page_of, served
from zotune.callbacks.stores import artifact_root, database_of, resolve_uri
from zotune.cli import main
from zotune.errors import ConfigError
from zotune.results.store import Store

ODD = "my résumé #1 dir"
SMALL = plain_study(
    name="mine",
    problem={"name": "quadratic", "dim": 12},
    budget=96,
    space={"q": [1, 12]},
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A folder of any name, in which the test runs."""
    folder = tmp_path / request.param
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return folder


@pytest.mark.parametrize("here", [ODD, "C#", "100% a", "a&b=c;d"], indirect=True)
def test_an_address_names_the_same_database_however_often_it_is_resolved(here: Path) -> None:
    uri = resolve_uri()
    assert resolve_uri(uri) == uri == resolve_uri(here_uri(here))
    assert database_of(uri) == here / "mlflow.db"
    assert artifact_root(uri) == (here / "mlartifacts").as_uri()


def here_uri(here: Path) -> str:
    return f"sqlite:///{here / 'mlflow.db'}"


@pytest.mark.parametrize("here", ["what?", "a%20b"], indirect=True)
def test_a_folder_that_sqlite_addresses_can_name_in_several_ways_is_refused(here: Path) -> None:
    said = re.escape(f"can have no ? and no escape such as %20, got {here}/mlflow.db; rename")
    with pytest.raises(ConfigError, match=said):
        resolve_uri()


def test_options_of_a_sqlite_address_are_kept_and_are_not_of_its_path(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db?timeout=9"
    assert resolve_uri(uri) == uri
    assert database_of(uri) == tmp_path / "mlflow.db"


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
@pytest.mark.parametrize("here", [ODD], indirect=True)
def test_a_launch_in_a_folder_of_any_name_is_recorded_reported_and_served(
    here: Path, empty_store: Path
) -> None:
    shutil.copy(empty_store, here / "mlflow.db")
    Path("mine.yaml").write_text(SMALL.to_yaml())
    done = CliRunner().invoke(main, ["run", "mine.yaml"])
    assert done.exit_code == 0, done.output
    assert "page: zotune ui mine" in done.output
    (launch,) = Store.open().read("mine")
    assert [trial.status for trial in launch.trials] == ["exhausted", "exhausted"]
    assert launch.file["name"] == "mine"
    reported = CliRunner().invoke(main, ["report", "mine", "-o", "out"])
    assert reported.exit_code == 0, reported.output
    assert "attached to the launch's summary run" in reported.output
    uri, place = page_of(["mine"])
    with served(uri) as address, urllib.request.urlopen(address + place.path) as page:
        assert page.status == 200
    written = {path.name for path in here.parent.iterdir()}
    assert written == {ODD}


def test_the_server_is_for_this_machine_only_and_runs_nothing_from_the_store_s_folder(
    tmp_path: Path, empty_store: Path
) -> None:
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    for module in ("mlflow", "uvicorn", "fastapi"):
        (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with served(f"sqlite:///{tmp_path}/mlflow.db") as address:
        port = int(address.rpartition(":")[2])
        assert _listeners(port) == {"0100007F"}  # 127.0.0.1, and nothing of IPv6
        assert _status(port, f"localhost:{port}") == 200
        assert _status(port, "10.example.org") == 403  # a name that a web page points here
        assert _status(port, f"localhost:{port}", origin="http://example.org") == 403
    assert not (tmp_path / "ran").exists()


def _listeners(port: int) -> set[str]:
    """Addresses at which the kernel takes connections to a port."""
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [line.split() for table in tables for line in table.read_text().splitlines()]
    return {r[1][:-5] for r in rows if r[1].endswith(f":{port:04X}") and r[3] == "0A"}


def _status(port: int, host: str, origin: str | None = None) -> int:
    """What the server answers to who calls it by this name, from a page of this origin."""
    headers = {"Host": host, "Content-Type": "application/json"}
    headers |= {"Origin": origin} if origin else {}
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    path = "/ajax-api/2.0/mlflow/experiments/search"
    connection.request("POST", path, body='{"max_results": 1}', headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_of_two_commands_that_start_at_once_one_has_the_usual_port() -> None:
    with free_port() as one, free_port() as other, free_port() as third:
        assert PORT not in (other, third)
        assert len({one, other, third}) > 1  # any that is free may be given again


def test_a_port_that_is_taken_is_told_at_once(tmp_path: Path) -> None:
    absent = ["--tracking-uri", f"sqlite:///{tmp_path}/mlflow.db", "--no-open"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(main, ["ui", "--port", str(port), *absent])
    assert done.exit_code == 2
    assert done.output.startswith(f"zotune: port {port} is taken; choose another with --port")
    large = CliRunner().invoke(main, ["ui", "--port", "65536", *absent])
    assert large.output == "zotune: --port must be from 0 to 65535, got 65536\n"
    free = CliRunner().invoke(main, ["ui", "--port", str(port), *absent])
    assert free.output.startswith("zotune: no MLflow store at")
