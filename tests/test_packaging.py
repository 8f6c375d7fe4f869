"""What is published: files, metadata, and a wheel that works where the source tree is not."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import yaml

from tests.packages import PIP, ROOT, Distributions
from zotune import __version__
from zotune.study.studyfile import shipped_studies

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CLEAN = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def test_the_citation_names_this_version_and_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "type"} <= citation.keys()
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert citation["keywords"] == PROJECT["keywords"]


def test_issue_forms_are_whole() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert [form.stem for form in forms] == ["bug", "config", "idea"]
    for form in forms:
        told = yaml.safe_load(form.read_text())
        assert form.stem == "config" or {"name", "description", "body"} <= told.keys()
    assert (ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md").is_file()


@pytest.fixture(scope="module")
def installed(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with the wheel, which borrows our dependencies."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    programs = folder / "bin"
    options = ["install", "--no-deps", "--no-index", str(distributions.wheel)]
    subprocess.run([*PIP, "--python", str(programs / "python"), *options], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return programs


def said(program: Path, *words: str, cwd: Path) -> str:
    done = subprocess.run([program, *words], cwd=cwd, env=CLEAN, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_sdist_and_the_wheel_have_every_file_that_is_needed(
    distributions: Distributions,
) -> None:
    with tarfile.open(distributions.sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "callbacks/page.py"} <= sources
    with zipfile.ZipFile(distributions.wheel) as archive:
        files = set(archive.namelist())
    code = [*ROOT.glob("zotune/**/*.py"), *ROOT.glob("callbacks/*.py"), *ROOT.glob("studies/*")]
    wanted = {str(path.relative_to(ROOT)) for path in code if path.suffix in (".py", ".yaml")}
    placed = {name if name.startswith("zotune/") else f"zotune/{name}" for name in wanted}
    assert placed <= files
    assert {"zotune/py.typed", "zotune/reporting/page.css", "zotune/reporting/page.js"} <= files
    assert {name.partition("/")[0].partition("-")[0] for name in files} == {"zotune"}


@pytest.mark.slow
def test_the_wheel_says_what_it_is(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as archive:
        (place,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        told = message_from_string(archive.read(place).decode())
    assert (told["Name"], told["Version"]) == ("zotune", __version__)
    assert told["License-Expression"] == PROJECT["license"]
    assert told["Requires-Python"] == PROJECT["requires-python"]
    assert told["Author"]
    assert told["Description-Content-Type"].startswith("text/markdown")
    assert set(told.get_all("Provides-Extra") or []) == PROJECT["optional-dependencies"].keys()


@pytest.mark.slow
def test_the_wheel_works_in_a_clean_environment(installed: Path, tmp_path: Path) -> None:
    code = (
        "import zotune, zotune.callbacks, zotune.studies; from pathlib import Path; "
        "home = Path(zotune.__file__).parent; assert (home / 'py.typed').is_file(); "
        "assert Path(zotune.callbacks.__file__).parent == home / 'callbacks'; "
        "print(home, zotune.__version__)"
    )
    home, version = said(installed / "python", "-c", code, cwd=tmp_path).split()
    assert Path(home).is_relative_to(installed.parent)
    assert version == __version__
    zotune = installed / "zotune"
    assert said(zotune, "--help", cwd=tmp_path).startswith("Usage: zotune ")
    listed = said(zotune, "list", cwd=tmp_path)
    assert all(study in listed for study in shipped_studies())
    assert said(zotune, "init", cwd=tmp_path).startswith("wrote my-study.yaml")
