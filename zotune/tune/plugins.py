"""``--import``: load files or modules of users that register entries, and send them to workers."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from zotune.errors import ConfigError, ZotuneError


def import_plugin(place: str) -> None:
    """Import a user's ``.py`` file or module, which registers entries.

    It is sent to Ray's workers by value, with the modules in the same folder that it imports, so
    that other machines of a cluster need no copy.
    """
    from ray import cloudpickle

    path, before = Path(place), set(sys.modules)
    if path.is_dir() and not (path / "__init__.py").is_file():
        raise ConfigError(f"--import {place} is a folder; give a .py file in it")
    try:
        module = _from_file(path) if path.suffix == ".py" else _from_name(place)
    except ZotuneError:
        raise
    except Exception as error:
        at = _line(error, module_file=str(path.absolute()))
        raise ConfigError(
            f"--import {place} failed{at}: {type(error).__name__}: {error}"
        ) from error
    beside = _modules_in(path.absolute().parent, set(sys.modules) - before)
    for each in {module, *beside} if path.suffix == ".py" else {module}:
        cloudpickle.register_pickle_by_value(each)  # type: ignore[no-untyped-call]


def _modules_in(folder: Path, names: set[str]) -> list[ModuleType]:
    """The modules among ``names`` whose file lies in a folder or below it."""
    modules = [sys.modules[name] for name in names]
    return [m for m in modules if folder in Path(getattr(m, "__file__", None) or "/").parents]


def _from_file(path: Path) -> ModuleType:
    """Import a file as a module under the file's name, once.

    Like a script, it can import modules in its folder.
    """
    if not path.is_file():
        raise ConfigError(f"--import {path}: there is no such file at {path.absolute()}")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path.absolute()):
        return known
    if known is not None:
        raise ConfigError(
            f"--import {path}: a module {path.stem!r} is imported already; rename the file"
        )
    spec = spec_from_file_location(path.stem, path.absolute())
    assert spec is not None  # a .py file has a loader
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    if str(path.absolute().parent) not in sys.path:
        sys.path.insert(0, str(path.absolute().parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


def _from_name(name: str) -> ModuleType:
    """Import a module that is installed, or in the current folder."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] and error.name != name:
            raise
        raise ConfigError(f"--import {name}: no module of this name; a file ends in .py") from None


def _line(error: BaseException, module_file: str) -> str:
    """The line of the error, if it occurred in the file."""
    trace, at = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == module_file:
            at = f" in line {trace.tb_lineno}"
        trace = trace.tb_next
    return at
