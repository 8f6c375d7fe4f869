"""``zotune doctor``: each fact is what this machine has, and problems decide the exit code."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner

from zotune.cli import main
from zotune.clusters.tokens import TOKEN, TOKEN_PATH
from zotune.doctor import machine, services
from zotune.doctor.command import CHECKS, facts, outcome, show
from zotune.doctor.fact import Fact

FINE = Fact("CPUs", "ok", "2", "Two trials run at a time. " * 5)
BAD = Fact("disk", "problem", "no room", "Free some space.")
NOTE = Fact("hub", "note", "offline", "Models in folders can be used.")
COLOUR = re.compile(r"\x1b\[[\d;]*(?<!\d)(?:3|4|9)\d")
"""An escape sequence that sets a colour; bold and italic are none."""


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder as home and as current one, nothing set, and no network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for key in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", TOKEN, TOKEN_PATH):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_the_command_examines_everything_and_its_exit_code_follows() -> None:
    done = CliRunner().invoke(main, ["doctor", "--json"])
    told = json.loads(done.stdout)
    assert len(told["facts"]) == len(CHECKS) == len({fact["name"] for fact in told["facts"]})
    for fact in told["facts"]:
        assert fact["found"], fact
        assert fact["advice"], fact
        assert not fact["advice"].startswith("This check failed"), fact
    assert told["problems"] == [f["name"] for f in told["facts"] if f["status"] == "problem"]
    assert done.exit_code == bool(told["problems"])


def test_a_problem_is_exit_code_1_and_a_note_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert show([FINE, NOTE], as_json=False) == 0
    assert capsys.readouterr().out.endswith("problems: none\n")
    assert show([FINE, BAD], as_json=False) == 1
    assert capsys.readouterr().out.endswith("problems: disk\n")


@pytest.mark.parametrize("columns", ["80", "200"])
def test_the_table_fits_80_columns(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    show([FINE, BAD], as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if "Two trials" in line]) > 1


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_no_color_turns_colours_off(
    no_color: str,
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for key, value in {"FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": no_color}.items():
        monkeypatch.setenv(key, value)
    show([FINE, BAD], as_json=False)
    assert bool(COLOUR.search(capsys.readouterr().out)) is coloured


def test_facts_are_shown_as_they_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    """A check that waits for an import or for the network keeps nobody before an empty screen."""
    shown = []

    def found() -> Iterator[Fact]:
        yield FINE
        shown.append(capsys.readouterr().out)
        yield BAD

    assert show(found(), as_json=False) == 1
    assert shown[0].startswith("ok")
    rest = capsys.readouterr().out
    assert rest.startswith("problem")
    assert shown[0].index("2") == rest.index("no room")  # one table, all the same


def test_what_waits_for_others_begins_before_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Event()

    def hub() -> Fact:
        begun.set()
        return NOTE

    def cpus() -> Fact:
        assert begun.wait(60)
        return FINE

    monkeypatch.setattr("zotune.doctor.command.CHECKS", (cpus, hub))
    monkeypatch.setattr("zotune.doctor.command.WAITING", (hub,))
    assert list(facts()) == [FINE, NOTE]


def test_a_check_that_fails_is_a_problem_and_not_the_end() -> None:
    def torch_threads() -> Fact:
        raise OSError("libcudart.so: cannot open shared object file\nmore")

    fact = outcome(torch_threads)
    assert (fact.name, fact.status) == ("torch threads", "problem")
    assert fact.found == "OSError: libcudart.so: cannot open shared object file"


def test_a_product_that_kills_its_process_is_told_with_the_setting_that_helps() -> None:
    dies = f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})"
    fact = machine.bfloat16(dies)
    assert fact.status == "problem"
    assert "export ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16" in fact.advice
    assert machine.bfloat16("raise RuntimeError('no such type')").found.endswith("no such type")


def test_bfloat16_products_work_with_the_setting_that_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(*machine.AMX_OFF.split("="))
    assert machine.bfloat16().status == "ok"


def test_extras_are_those_that_the_package_declares() -> None:
    assert machine.missing() == []
    assert machine.missing("optuna") == []  # the tests need it
    found = machine.extras().found
    assert all(extra in found for extra in ("optuna", "minilm", "bench", "postgres"))
    assert "test" not in found


def test_the_command_that_installs_an_extra_is_not_broken_at_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "missing", lambda extra="": ["x"])
    advice = machine.extras().advice
    assert "pip install 'zotune[bench]'" in advice
    assert len(advice) <= 80 - 24  # beside two columns


def test_a_token_is_found_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "token: none" in services.ray().found
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("secret")
    assert "token: in ~/.ray/auth_token" in services.ray().found
    monkeypatch.setenv(TOKEN, "secret")
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    fact = services.ray()
    assert fact.found == f"cluster address: 10.0.0.1:6379; token: in {TOKEN}"
    assert "--address auto joins that cluster" in fact.advice


def test_a_token_s_file_that_is_not_there_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_PATH, str(tmp_path / "gone"))
    fact = services.ray()
    assert fact.status == "problem"
    assert "gone, which is not there" in fact.advice


def test_a_store_is_created_by_a_study_and_not_by_the_doctor(tmp_path: Path) -> None:
    fact = services.mlflow()
    assert fact.found == f"sqlite:///{tmp_path}/mlflow.db, not there yet"
    assert fact.status == "ok"
    assert not (tmp_path / "mlflow.db").exists()


def test_a_store_that_is_there_answers(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    assert services.mlflow().found == f"{store} answers"


def test_stores_that_cannot_be_used_are_problems_without_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlflow.db").write_text("This is a text, and not a database." * 100)
    assert "mlflow.db is not a database of MLflow" in services.mlflow().found
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:secret@{at}")
        fact = services.mlflow()
    assert fact.status == "problem"
    assert fact.found.startswith(f"http://{at} does not answer")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "./mlruns")
    assert "names a folder of files" in services.mlflow().found


def test_a_hub_that_says_nothing_is_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    assert services.hub().found == "offline by HF_HUB_OFFLINE"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        assert services.hub().found == f"{address} did not answer within 3 s"


def test_a_folder_that_cannot_be_written_to_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.disk().status == "ok"
    monkeypatch.chdir("/proc")  # where not even root can make a file
    fact = machine.disk()
    assert fact.status == "problem"
    assert fact.advice.startswith("cannot write to /proc")


def test_what_ray_finds_is_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", json.dumps({"CPU": 3, "GPU": 0}))
    assert machine.cpus().found == "3 that Ray may use"
