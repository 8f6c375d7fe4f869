"""Launch folders: unique, locked, found again, and refused before the first trial."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zotune.config import Config
from zotune.core.names import FINISHED, INTERRUPTED
from zotune.objectives import PROBLEMS
from zotune.runs.old_defaults import CHOICES_2
from zotune.study import Study
from zotune.study.defaults import completed
from zotune.study.launch import (
    Launch,
    LaunchError,
    extended_launch,
    launch_id,
    launches_of,
    new_launch,
    old_launch,
)
from zotune.study.shape import Shape
from zotune.study.studyfile import parse_document

STUDY = Study(name="mine", problem={"name": "quadratic", "dim": 10}, budget=50, space={"q": [1, 5]})


def test_launch_ids_are_unique() -> None:
    assert len({launch_id() for _ in range(50)}) > 45  # and their folders are locked besides


def test_a_launch_keeps_its_study_and_what_became_of_it(tmp_path: Path) -> None:
    with new_launch(STUDY, tmp_path) as launch:
        assert launch.folder == tmp_path / "mine" / launch.id
        launch.record(INTERRUPTED)
    record = json.loads((launch.folder / "launch.json").read_text())
    assert (record["id"], record["state"]) == (launch.id, "interrupted")
    assert {"zotune", "torch", "ray", "mlflow", "python", "machine"} <= record["versions"].keys()
    with old_launch("mine", tmp_path, None) as again:
        assert again.study == STUDY
        assert again.folder == launch.folder
        again.record(FINISHED)
    with pytest.raises(LaunchError, match="no unfinished launch of mine in"):
        old_launch("mine", tmp_path, None).__enter__()
    with pytest.raises(LaunchError, match=f"launch {launch.id} of mine is finished; start a new"):
        old_launch("mine", tmp_path, launch.id).__enter__()


def test_a_launch_holds_every_setting_and_every_default(tmp_path: Path) -> None:
    with new_launch(STUDY, tmp_path) as launch:
        pass
    record = json.loads((launch.folder / "launch.json").read_text())
    assert record["format"] == 3
    options = {f"problem.{option}" for option in PROBLEMS["quadratic"].options}
    assert record["defaults"].keys() == {*Config.model_fields, *options} - {"problem", "budget"}
    saved = parse_document((launch.folder / "study.yaml").read_text()).data
    assert saved.keys() == Shape.model_fields.keys() - {"claims", "tuning"}
    assert (saved["format"], saved["scheduler"], saved["stop"]["loss"]) == (3, "none", None)


def with_other_defaults(launch: Launch, **changes: Any) -> None:
    """Let the launch have been started when defaults were these."""
    file = launch.folder / "launch.json"
    record = json.loads(file.read_text())
    file.write_text(json.dumps(record | {"defaults": {**record["defaults"], **changes}}))


def test_a_default_that_has_changed_since_does_not_change_a_launch(tmp_path: Path) -> None:
    with new_launch(STUDY, tmp_path) as launch:
        launch.record(INTERRUPTED)
    then = {"directions": "sphere", "problem.condition": 7.0, "q": 3, "problem.dim": 99}
    with_other_defaults(launch, **then, gone="a setting that is no more")
    with old_launch("mine", tmp_path, launch.id) as again:
        config = again.study.configuration(again.study.trials[1])
    assert (config.directions, config.problem["condition"]) == ("sphere", 7.0)
    assert (config.q, config.problem["dim"]) == (5, 10)  # which the study tells
    assert launches_of(STUDY, tmp_path) == []
    with extended_launch("mine", tmp_path, launch.id, budget=60) as more:
        config = more.study.configuration(more.study.trials[1])
    assert (config.directions, config.problem["condition"], config.budget) == ("sphere", 7.0, 60)


def test_a_launch_of_format_1_has_the_defaults_of_then() -> None:
    data = {"name": "mine", "problem": "language-model", "budget": 9, "fixed": {"eta": 1.0}}
    then = completed(data, {"state": "finished"})
    assert then["problem"] == {"name": "language-model", "head": "linear", "pooling": "last"}
    assert then["fixed"] == {**CHOICES_2, "eta": 1.0}
    assert then["count"] == "directions"
    assert completed(data, {}) == data  # of which nothing is known


@pytest.mark.parametrize("fixed", [{}, {"q": 4}])
def test_a_launch_of_format_2_has_the_defaults_of_then(
    tmp_path: Path, fixed: dict[str, Any]
) -> None:
    short = {"name": "mine", "problem": {"name": "quadratic", "dim": 10}, "budget": 50}
    with new_launch(Study(**short, count="directions", fixed=fixed), tmp_path) as launch:
        launch.record(INTERRUPTED)
    as_of_format_2(launch)
    for _ in range(2):  # the first to resume it writes its record anew
        with old_launch("mine", tmp_path, launch.id) as again:
            config = again.study.configuration({})
        assert config.count == "directions"
        assert (config.method == "auto") == (not fixed)
        if fixed:
            asked = {key: getattr(config, key) for key in CHOICES_2}
            assert asked == {**CHOICES_2, **fixed}


def as_of_format_2(launch: Launch) -> None:
    """Let the launch have been written when its files had format 2."""
    record = json.loads((launch.folder / "launch.json").read_text())
    record |= {"format": 2, "defaults": {**record["defaults"], **CHOICES_2, "count": "directions"}}
    (launch.folder / "launch.json").write_text(json.dumps(record))
    text = (launch.folder / "study.yaml").read_text()
    (launch.folder / "study.yaml").write_text(text.replace("format: 3\n", "format: 2\n"))


def test_a_launch_of_a_later_format_is_refused(tmp_path: Path) -> None:
    with new_launch(STUDY, tmp_path) as launch:
        file = launch.folder / "launch.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 4}))
    with pytest.raises(LaunchError, match="has format 4, and this zotune reads 2, 3 and"):
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
    settings |= {"space": {"q": [1, 9]}, "replicates": 6}  # so that claims can be decided
    with new_launch(Study(**settings), tmp_path) as launch:
        assert launches_of(Study(**settings), tmp_path) == []
    claiming = Study(**settings, claims=[said], question="Do they?")
    assert [known.id for known in launches_of(claiming, tmp_path)] == [launch.id]
    assert launches_of(claiming, tmp_path)[0].study.claims == claiming.claims
    assert launches_of(Study(**settings | {"budget": 91}), tmp_path) == []
