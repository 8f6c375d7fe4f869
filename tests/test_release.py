"""``make release``: a version is tagged with its notes once everything agrees, never by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "release.py"
READY = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2030-01-01\n\n### Added\n\n- More.\n\n"
READY += "## [0.1.0] - 2029-01-01\n\n- Old.\n"
NOTES = "### Added\n\n- More."


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "zotune/_version.py": '__version__ = "0.2.0"\n',
        "CHANGELOG.md": READY,
        "CITATION.cff": "title: zotune\nversion: 0.2.0\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "Change")


def release(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    for key, value in {"name": "Somebody", "email": "somebody@example.org"}.items():
        git(folder, "config", f"user.{key}", value)
    command = [sys.executable, str(TOOL), "--root", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_dry_run_shows_the_notes_and_tags_nothing(project: Path) -> None:
    done = release(project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"zotune 0.2.0\n\n{NOTES}\n\nready;")
    assert git(project, "tag") == ""


def test_a_tag_carries_the_notes_headings_included(project: Path) -> None:
    done = release(project, "--tag")
    assert done.returncode == 0, done.stderr
    assert git(project, "tag", "--format=%(contents)").strip() == f"zotune 0.2.0\n\n{NOTES}"
    assert "not ready: tag v0.2.0 exists" in release(project).stderr


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("CHANGELOG.md", "## [Unreleased]\n\n- New.\n", "CHANGELOG.md has no section [0.2.0]"),
        (
            "CHANGELOG.md",
            READY.replace("[Unreleased]\n", "[Unreleased]\n\n- New.\n"),
            "CHANGELOG.md still has lines under [Unreleased]",
        ),
        ("CITATION.cff", "version: 0.1.0\n", "CITATION.cff names another version than 0.2.0"),
    ],
)
def test_a_version_that_is_not_ready_is_not_tagged(
    project: Path, file: str, text: str, why: str
) -> None:
    (project / file).write_text(text)
    commit(project)
    done = release(project, "--tag")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"not ready: {why}")
    assert git(project, "tag") == ""


def test_what_is_not_committed_is_not_released(project: Path) -> None:
    (project / "new.py").write_text("")
    assert "not ready: there are changes that are not committed" in release(project).stderr
