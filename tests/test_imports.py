"""Imports point one way: every room knows only those below it, in functions too."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = (
    *("_version", "errors", "core", "clusters", "_lazy", "addresses", "registry", "methods"),
    "directions",
    *("blocks", "estimators", "blocksizes", "steps", "updates", "config", "choosing", "weights"),
    *("objectives", "iterates", "evaluators", "loop", "runs", "gest", "optuna", "tune"),
    *("callbacks", "claims", "study", "results", "theory", "reporting", "language", "bench"),
    "reproduction",
    *("doctor", "cli"),
)
"""From the ground up."""


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.glob("zotune/**/*.py")):
        if not any(parent.is_symlink() for parent in path.parents):
            yield path.relative_to(ROOT / "zotune").with_suffix("").parts[0], path
    for path in sorted(ROOT.glob("callbacks/*.py")):
        yield "callbacks", path


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and rooms of all imports, late ones too, but those for the type checker alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inside)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inside in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "LazyModule":
            names = [ast.literal_eval(node.args[0])]
        for name in names:
            parts = name.split(".")
            if parts[0] == "zotune" and len(parts) > 1:
                yield node.lineno, parts[1]


def test_every_room_has_its_place() -> None:
    assert {room for room, _ in modules()} - {"__init__"} == set(ROOMS)


def test_the_map_names_every_room() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = [room for room in ROOMS if not room.startswith("_")]
    assert not [room for room in rooms if f"{room}/`" not in text and f"{room}.py`" not in text]


def test_imports_point_downwards_only() -> None:
    upwards = [
        f"{path.relative_to(ROOT)}:{line} {room} → {other}"
        for room, path in modules()
        if room != "__init__"
        for line, other in imported(path)
        if other in ROOMS and ROOMS.index(other) > ROOMS.index(room)
    ]
    assert not upwards


def test_the_name_of_a_class_means_one_thing() -> None:
    homes = defaultdict(list)
    for _, path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: found for name, found in homes.items() if len(found) > 1}
    assert not twice


def test_the_hallway_is_short() -> None:
    assert len(list((ROOT / "zotune").glob("*.py"))) <= 12


def test_a_driver_waits_neither_for_torch_nor_for_mlflow() -> None:
    code = (
        "import sys; from zotune.cli import run_command\n"
        "from zotune.callbacks import MLflowCurves, Progress\n"
        "from zotune.study.model import load_study; from zotune.study.tuning import param_space\n"
        "param_space(load_study('smoke'))\n"
        "sys.exit(' '.join({'torch', 'mlflow', 'matplotlib'} & {*sys.modules}))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.stderr.strip() == ""
