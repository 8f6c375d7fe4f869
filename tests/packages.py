"""zotune as it is published: an sdist of this tree, and a wheel that was built from the sdist."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
NOWHERE = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__")
NOT_AT_THE_TOP = {"build", "dist", "reports", "results"}
BUILD_SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


def left_out(folder: str, names: list[str]) -> set[str]:
    """What a tree has that is not of the project: what was built, and what studies have left."""
    return NOWHERE(folder, names) | (NOT_AT_THE_TOP if Path(folder) == ROOT else set())


@dataclass(frozen=True)
class Distributions:
    """Two files."""

    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    folder = tmp_path_factory.mktemp("distributions")
    source, built = folder / "source", folder / "built"
    shutil.copytree(ROOT, source, symlinks=True, ignore=left_out)
    command = [sys.executable, "-c", BUILD_SDIST, str(built)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (sdist,) = built.glob("zotune-*.tar.gz")
    options = ["--no-deps", "--no-build-isolation", "-w", str(built), str(sdist)]
    subprocess.run([*PIP, "wheel", *options], check=True)
    (wheel,) = built.glob("zotune-*.whl")
    return Distributions(sdist, wheel)
