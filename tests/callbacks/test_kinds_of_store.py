"""The same curves in a real Postgres, with a password, and behind TLS."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import zotune
from tests.callbacks.conftest import Gate
from tests.callbacks.test_mlflow_curves import CONFIG
from tests.callbacks.test_outages import check
from tests.servers import Server, wait_for
from tests.tune.conftest import Fit
from zotune.callbacks import MLflowCurves

pytestmark = pytest.mark.faults
PASSWORD = "open-sesame"


@pytest.fixture
def postgres() -> Iterator[str]:
    """A Postgres of this test on loopback, which wants a password; its address."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs or shutil.which("runuser") is None:
        pytest.skip("Debian's postgresql is not installed")
    folder = Path(tempfile.mkdtemp(prefix="zotune-postgres-"))
    (folder / "password").write_text(PASSWORD)
    for path in (folder, folder / "password"):
        shutil.chown(path, "postgres", "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    as_user = ["runuser", "-u", "postgres", "--"]
    data = str(folder / "data")
    initdb = [str(programs[-1] / "initdb"), "-D", data, "-A", "scram-sha-256", "-U", "zotune"]
    initdb += ["--pwfile", str(folder / "password")]
    subprocess.run([*as_user, *initdb], check=True, capture_output=True)
    server = [str(programs[-1] / "postgres"), "-D", data, "-h", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(
        [*as_user, *server, "-k", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: _listens(port))
    yield f"postgresql://zotune:{PASSWORD}@127.0.0.1:{port}/postgres"
    process.terminate()
    process.wait(30)
    shutil.rmtree(folder, ignore_errors=True)


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        time.sleep(0.2)
        return tried.connect_ex(("127.0.0.1", port)) == 0


def test_postgres_gets_each_point_once_and_its_password_is_written_nowhere(
    fit: Fit, postgres: str, tmp_path: Path
) -> None:
    results = fit(
        zotune.ZOTrainable, CONFIG, callbacks=[MLflowCurves(postgres, "curves", wait=180)]
    )
    assert not results.errors
    check(postgres, "curves")
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "spool.json" for path in written)
    assert [path for path in written if PASSWORD.encode() in path.read_bytes()] == []


class SecureGate(Gate):
    """The gate, behind TLS."""

    context: ssl.SSLContext

    def _serve(self, client: socket.socket) -> None:
        super()._serve(self.context.wrap_socket(client, server_side=True))


def test_a_server_behind_tls_gets_each_point_once(
    fit: Fit, running_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    options = ["-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    options += ["-addext", "subjectAltName=IP:127.0.0.1"]
    paths = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *options, *paths], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    SecureGate.context = context
    gate = SecureGate(running_server.port)
    uri = gate.uri.replace("http:", "https:")
    monkeypatch.setenv("MLFLOW_TRACKING_SERVER_CERT_PATH", str(certificate))
    try:
        results = fit(zotune.ZOTrainable, CONFIG, callbacks=[MLflowCurves(uri, "tls", wait=180)])
        assert not results.errors
        check(uri, "tls")
    finally:
        gate.close()
