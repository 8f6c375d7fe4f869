"""Find a user's function ``FILE.py:NAME`` by parsing the file, without executing it."""

from __future__ import annotations

import ast
import shlex
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from zotune.errors import ConfigError, nearest


@dataclass(frozen=True)
class UserFunction:
    """The location of a function, and its argument type."""

    file: Path
    """Path relative to the current folder."""
    name: str
    takes_tensors: bool
    """Whether its file imports torch; otherwise the argument is a numpy array."""


def find_function(place: str) -> UserFunction:
    """The function at ``FILE.py:NAME``; a problem file in the current folder can import it."""
    file, colon, name = place.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise ConfigError(f"--function must be FILE.py:NAME, got {place!r}")
    path, here = Path(file).resolve(), Path.cwd().resolve()
    if not path.is_file():
        raise ConfigError(f"--function {place}: there is no file {path}")
    if not path.is_relative_to(here):
        raise ConfigError(
            f"--function {place}: the file must be in the current folder or below it, to be sent "
            f"to Ray's workers; cd {shlex.quote(str(path.parent))} first"
        )
    _require_importable(path, place)
    tree = _parsed(path, place)
    if name not in (known := _top_level(tree)):
        functions = ", ".join(n.name for n in tree.body if isinstance(n, ast.FunctionDef))
        raise ConfigError(
            f"--function {place}: there is no {name!r} in the file{nearest(name, known)}; "
            f"its functions: {functions or 'none'}"
        )
    return UserFunction(path.relative_to(here), name, _imports_torch(tree))


def _require_importable(path: Path, place: str) -> None:
    if not path.stem.isidentifier():
        raise ConfigError(
            f"--function {place}: Python cannot import a file of this name; "
            "rename it, with letters, digits and '_' only"
        )
    other = find_spec(path.stem)
    if other is not None and other.origin != str(path):
        raise ConfigError(
            f"--function {place}: Python has another module {path.stem!r}; rename the file"
        )


def _parsed(path: Path, place: str) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"--function {place}: the file is not Python: {error}") from None


def _top_level(tree: ast.Module) -> set[str]:
    """Names that a module defines, assigns or imports outside of its functions."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(each.asname or each.name for each in node.names)
        elif isinstance(node, ast.Assign):
            found.update(each.id for each in node.targets if isinstance(each, ast.Name))
    return found


def _imports_torch(tree: ast.Module) -> bool:
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    return any(each.name.partition(".")[0] == "torch" for node in imports for each in node.names)
