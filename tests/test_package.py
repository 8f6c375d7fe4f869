"""The package as it is installed: names, folders, and how long an import takes."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import zotune
from zotune.errors import DuplicateNameError, UnknownNameError, ZotuneError
from zotune.registry import Registry

ROOT = Path(__file__).parent.parent
BUILTIN = ValueError | TypeError | LookupError | RuntimeError | MemoryError
HEAVY = ("torch", "ray", "mlflow", "transformers", "pandas", "matplotlib")


@pytest.mark.parametrize("name", zotune.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(zotune, name) is not None
    assert name in dir(zotune)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'minimise'"):
        zotune.minimise  # noqa: B018


@pytest.mark.parametrize(
    "program",
    [
        "import zotune",
        "import zotune.callbacks, zotune.studies",
        "from click.testing import CliRunner; from zotune.cli import main; "
        "assert CliRunner().invoke(main, ['list']).exit_code == 0",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(program: str) -> None:
    check = f"{program}\nimport sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("folder", ["callbacks", "studies"])
def test_the_top_level_folders_refuse_to_be_packages_of_those_names(folder: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {folder}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert f"import zotune.{folder}" in done.stderr


def test_every_folder_with_code_is_declared_as_a_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "packages"
    ]
    inits = [*ROOT.glob("zotune/**/__init__.py"), ROOT / "callbacks/__init__.py"]
    inits.append(ROOT / "studies/__init__.py")
    found = {".".join(init.parent.relative_to(ROOT).parts) for init in inits}
    found = {name if name.startswith("zotune") else f"zotune.{name}" for name in found}
    assert sorted(declared) == sorted(found)


@pytest.mark.parametrize("link", ["callbacks", "studies"])
def test_the_links_inside_the_package_are_relative(link: str) -> None:
    path = ROOT / "zotune" / link
    assert path.is_symlink()
    assert str(path.readlink()) == f"../{link}"


def test_the_maths_knows_nothing_of_ray_and_mlflow() -> None:
    rooms = ("core", "directions", "estimators", "updates", "objectives", "iterates", "descent")
    rooms += ("loop", "runs", "weights", "steps", "blocksizes")
    maths = [path for room in rooms for path in ROOT.glob(f"zotune/{room}/*.py")]
    assert len(maths) > 40
    for path in [
        *maths,
        *(ROOT / f"zotune/{name}.py" for name in ("blocks", "config", "choosing")),
    ]:
        text = path.read_text()
        assert not re.search(r"^\s*(import|from) (ray|mlflow)", text, re.MULTILINE), path


def test_constraints_hold_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    assert "torch==2.13.0" in lines
    for line in lines:
        name, _, version = line.partition("==")
        assert name, line
        assert version, line
        assert not set("/@:+") & set(line), line


def test_a_registry_refuses_a_name_twice_and_offers_the_nearest() -> None:
    registry: Registry[int] = Registry("number", "zotune.studies", lambda number: number)
    registry.add("one", 1)
    with pytest.raises(DuplicateNameError, match="number 'one' is registered already"):
        registry.add("one", 2)
    with pytest.raises(UnknownNameError, match=r"number 'ones' is not known \(did you mean 'one'"):
        registry["ones"]
    assert list(registry) == ["one"]
    assert "two" not in registry


def test_every_error_of_ours_is_also_a_builtin_one() -> None:
    for error in ZotuneError.__subclasses__():
        assert issubclass(error, BUILTIN), error
