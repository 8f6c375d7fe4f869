"""Folders are tried before work is done, and left as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from zotune.cli import main
from zotune.errors import ConfigError
from zotune.folders import require_writable


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
