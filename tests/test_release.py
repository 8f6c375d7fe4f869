"""``make release``: a version is tagged with its notes once everything agrees, never by itself."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.snippets import ROOT, tool

TOOL = ROOT / "tools" / "release.py"
PAGES = {lines.page: lines for lines in tool("installing").ALL}
NO_INDEX = "No release is on a package index yet"
READY = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2030-01-01\n\n### Added\n\n- More.\n\n"
READY += "## [0.1.0] - 2029-01-01\n\n- Old.\n"
NOTES = "### Added\n\n- More."
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "zotune"
readme = "README.md"
dynamic = ["version"]
[tool.setuptools]
packages = ["zotune"]
dynamic.version = {attr = "zotune._version.__version__"}
"""


def unreleased(page: str) -> str:
    """The page as it is before a release is on an index."""
    lines, text = PAGES[page], (ROOT / page).read_text(encoding="utf-8")
    return text.replace(lines.from_an_index, lines.from_a_clone)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "zotune/_version.py": '__version__ = "0.2.0"\n',
        "CHANGELOG.md": READY,
        "CITATION.cff": "title: zotune\nversion: 0.2.0\n",
        "pyproject.toml": PROJECT,
        ".gitignore": "dist/\nbuild/\n",
    } | {page: unreleased(page) for page in PAGES}
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


def typed_first(page: str) -> str:
    """The first block of a page that a reader types."""
    found = re.search(r"```(?:bash)?\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


def test_readers_begin_with_a_clone_until_a_release_is_on_an_index() -> None:
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    (no_index,) = {NO_INDEX in text for text in texts}
    for text in texts:
        assert typed_first(text).startswith("git clone " if no_index else "pip install zotune\n")
        assert ("pip install zotune\n" in text) != no_index


def test_a_release_for_an_index_changes_what_readers_type_first(project: Path) -> None:
    done = release(project, "--tag", "--index")
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        tagged = git(project, "show", f"v0.2.0:{page}")
        assert typed_first(tagged).startswith("pip install zotune\n")
        assert NO_INDEX not in tagged
    assert git(project, "status", "--porcelain") == ""


def test_a_release_for_no_index_leaves_the_documents_as_they_are(project: Path) -> None:
    release(project, "--tag")
    for page in PAGES:
        assert git(project, "show", f"v0.2.0:{page}") == unreleased(page)


def test_a_page_that_installs_in_other_words_is_not_released(project: Path) -> None:
    (project / "README.md").write_text("Install it somehow.\n")
    commit(project)
    done = release(project, "--tag", "--index")
    assert done.stderr.startswith("not ready: README.md installs in other words than tools/")
    assert git(project, "tag") == ""


@pytest.mark.parametrize("words", [["--wheel"], [], ["--tag", "--index"]])
def test_a_wheel_of_what_is_committed_is_left(project: Path, words: list[str]) -> None:
    if words == ["--wheel"]:
        (project / "zotune" / "lying_around.py").write_text("")
    done = release(project, *words)
    assert done.returncode == 0, done.stderr
    (made,) = (project / "dist").iterdir()
    assert f"wheel: {made}\n" in done.stdout
    with zipfile.ZipFile(made) as archive:
        assert [n for n in archive.namelist() if n.startswith("zotune/")] == ["zotune/_version.py"]
        told = archive.read("zotune-0.2.0.dist-info/METADATA").decode()
    installed = "pip install zotune\n" if "--index" in words else "git clone "
    assert typed_first(told).startswith(installed)
