"""Launch folders: unique, locked, found again, and refused before the first trial."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zotune.core.names import FINISHED, INTERRUPTED
from zotune.study import Study
from zotune.study.launch import LaunchError, launch_id, launches_of, new_launch, old_launch

STUDY = Study(name="mine", problem={"name": "quadratic", "dim": 10}, budget=50, space={"q": [1, 5]})


def test_launch_ids_are_unique() -> None:
    assert len({launch_id() for _ in range(50)}) > 45  # and their folders are locked besides


def test_a_launch_keeps_its_study_and_what_became_of_it(tmp_path: Path) -> None:
    with new_launch(STUDY, tmp_path) as launch:
        assert launch.folder == tmp_path / "mine" / launch.id
        launch.record(INTERRUPTED)
    record = json.loads((launch.folder / "launch.json").read_text())
    assert (record["id"], record["state"]) == (launch.id, "interrupted")
    with old_launch("mine", tmp_path, None) as again:
        assert again.study == STUDY
        assert again.folder == launch.folder
        again.record(FINISHED)
    with pytest.raises(LaunchError, match="no unfinished launch of mine in"):
        old_launch("mine", tmp_path, None).__enter__()
    with pytest.raises(LaunchError, match=f"launch {launch.id} of mine is finished; start a new"):
        old_launch("mine", tmp_path, launch.id).__enter__()


def test_a_launch_that_others_could_have_changed_is_not_resumed(tmp_path: Path) -> None:
    with new_launch(STUDY, tmp_path) as launch:
        launch.record(INTERRUPTED)
    assert launch.folder.stat().st_mode & 0o777 == 0o700
    launch.folder.chmod(0o770)
    refusal = f"launch {launch.id} is not resumed, because another user owns or may write to "
    with pytest.raises(LaunchError, match=refusal + f"{launch.folder}, and resuming runs code"):
        old_launch("mine", tmp_path, launch.id).__enter__()
    launch.folder.chmod(0o750)
    with old_launch("mine", tmp_path, launch.id) as again:
        assert again.id == launch.id


def test_the_newest_unfinished_launch_that_nobody_runs_is_taken(tmp_path: Path) -> None:
    with new_launch(STUDY, tmp_path) as first, new_launch(STUDY, tmp_path) as second:
        assert first.folder != second.folder
        with pytest.raises(LaunchError, match="no unfinished launch of mine"):
            old_launch("mine", tmp_path, None).__enter__()
        with pytest.raises(LaunchError, match=f"launch {first.id} is running in another process"):
            old_launch("mine", tmp_path, first.id).__enter__()
    with old_launch("mine", tmp_path, None) as newest:
        assert newest.id == second.id
        with old_launch("mine", tmp_path, None) as other:
            assert other.id == first.id
    with pytest.raises(LaunchError, match=r"no launch 'nope' of mine in .*; launches: \d{8}-"):
        old_launch("mine", tmp_path, "nope").__enter__()


def test_a_storage_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match=r"cannot write to .*file/mine/.*: Not a directory; cho"):
        new_launch(STUDY, tmp_path / "file").__enter__()
    with pytest.raises(LaunchError, match="cannot write to /proc/mine/"):
        new_launch(STUDY, Path("/proc")).__enter__()
    with pytest.raises(LaunchError, match=r"storage must be a folder, got .*s3:/bucket"):
        new_launch(STUDY, Path("s3://bucket")).__enter__()


def test_a_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5_000_000))
    with pytest.raises(
        LaunchError, match="has 5 MB left, and the study's checkpoints take up to 1"
    ):
        new_launch(STUDY, tmp_path).__enter__()


def test_launches_of_a_study_are_known_by_what_they_run_not_by_what_is_claimed(
    tmp_path: Path,
) -> None:
    said = {"name": "blocks", "says": "Blocks help.", "not_rising": "q"}
    settings: dict[str, Any] = {"name": "mine", "problem": "quadratic", "budget": 90}
    settings["space"] = {"q": [1, 9]}
    with new_launch(Study(**settings), tmp_path) as launch:
        assert launches_of(Study(**settings), tmp_path) == []
    claiming = Study(**settings, claims=[said], question="Do they?")
    assert [known.id for known in launches_of(claiming, tmp_path)] == [launch.id]
    assert launches_of(claiming, tmp_path)[0].study.claims == claiming.claims
    assert launches_of(Study(**settings | {"budget": 91}), tmp_path) == []
