"""Folders are tried before work is done, and left as they were; private ones are private."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from zotune.cli import main
from zotune.core.folders import SOCKET_PATH, private_folder, require_writable, written_by_others
from zotune.errors import ConfigError


def test_a_folder_that_was_tried_is_as_it_was(tmp_path: Path) -> None:
    require_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "kept").mkdir()
    require_writable(tmp_path / "kept" / "b")
    require_writable(tmp_path / "kept")
    assert [path.name for path in tmp_path.rglob("*")] == ["kept"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot write to .*file/a: Not a directory; choose"):
        require_writable(tmp_path / "file" / "a")


@pytest.mark.parametrize("command", ["compare -o /proc/zotune/a.png", "reproduce -o /proc/zotune"])
def test_commands_try_their_folder_first(command: str) -> None:
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code == 2
    assert done.output.startswith("zotune: cannot write to /proc/zotune: No such file")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    return tmp_path


def test_a_private_folder_is_made_once_and_nobody_else_can_enter_it(base: Path) -> None:
    folder = private_folder()
    assert folder == base / f"zotune-{os.getuid()}" == private_folder()
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("taken", ["open", "link"])
def test_a_folder_that_somebody_has_made_before_us_is_not_used(base: Path, taken: str) -> None:
    usual = base / f"zotune-{os.getuid()}"
    if taken == "open":
        usual.mkdir()
        usual.chmod(0o777)
    else:
        (base / "elsewhere").mkdir(mode=0o700)
        usual.symlink_to(base / "elsewhere")
    folder = private_folder()
    assert folder.parent == base
    assert folder != usual
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_private_folder_has_room_for_sockets(base: Path) -> None:
    assert private_folder(SOCKET_PATH - len(str(base)) - 1).parent == Path("/tmp")


def test_what_others_may_write_to_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "launch"
    folder.mkdir(mode=0o700)
    (folder / "trial").mkdir()
    (folder / "link").symlink_to("nowhere")
    file = folder / "trial" / "state.pkl"
    file.touch()
    file.chmod(0o664)
    assert written_by_others(folder) is None  # nobody else gets in
    folder.chmod(0o755)
    assert written_by_others(folder) == file
    file.chmod(0o644)
    assert written_by_others(folder) is None
    folder.chmod(0o775)
    assert written_by_others(folder) == folder


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_what_somebody_else_owns_is_found(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, -1)
    assert written_by_others(tmp_path) == tmp_path
