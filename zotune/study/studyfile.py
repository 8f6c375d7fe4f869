"""Read study files, with the line of every entry, and apply ``--set``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from zotune.errors import ConfigError, unknown

Path_ = tuple[str, ...]
"""Keys from the top of a study to an entry: ("space", "q")."""

SUFFIXES = (".yaml", ".yml")
GRID, RANDOM, OPTUNA, RACE = "grid", "random", "optuna", "race"
"""Algorithms of a search."""
NO_SCHEDULER, ASHA, MEDIAN, PBT = "none", "asha", "median", "pbt"
"""Schedulers."""
ROWS, TRIALS = "rows", "trials"
"""Values of ``replicates_as``."""


class Complaint(NamedTuple):
    """An error in one entry."""

    path: Path_
    message: str


class StudyError(ConfigError):
    """An invalid study; ``problems`` has one line for every error."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number and duplicate keys are errors."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+\Z"),
    list("-+.0123456789"),
)


class _SettingLoader(_Loader):
    """A loader for single values, without anchors, so that text may begin with * or &."""

    fetch_alias = fetch_anchor = _Loader.fetch_plain


_SettingLoader.add_constructor("tag:yaml.org,2002:yaml", lambda _, node: node.value)  # * alone


@dataclass
class Document:
    """The entries of a study, and the line of each."""

    data: dict[str, Any]
    places: dict[Path_, str] = field(default_factory=dict)
    source: str = ""

    def lines(self, complaints: Iterable[Complaint]) -> list[str]:
        """Complaints with file and line, in the order of the file."""
        placed = [(self._place(complaint.path), complaint.message) for complaint in complaints]
        placed.sort(key=lambda pair: int(pair[0].rpartition(":")[2]) if _has_line(pair[0]) else 0)
        return [f"{place}: {message}" if place else message for place, message in placed]

    def _place(self, path: Path_) -> str:
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, self.source)


def _has_line(place: str) -> bool:
    return place.rpartition(":")[2].isdigit()


def read_value(text: str) -> Any:
    """Parse a value as in a study file; a pattern such as ``*layers*`` needs no quotes."""
    return yaml.load(text, _SettingLoader)


def read_document(name_or_path: str | Path) -> Document:
    """Read the study with that name, or in that file."""
    if not isinstance(name_or_path, str | os.PathLike):
        raise StudyError(
            [
                "a study is loaded by its name or from a file, got "
                f"{type(name_or_path).__name__}; make one of a mapping with zotune.Study(**mapping)"
            ]
        )
    path = Path(name_or_path)
    if path.suffix == ".py":
        raise StudyError(
            [
                f"a study is a .yaml file, got {path}; `zotune init NAME --function {path}:NAME "
                "--dim N` writes one for a function"
            ]
        )
    if path.suffix in SUFFIXES or path.is_file():
        if not path.is_file():
            raise StudyError(
                [f"no study file at {path}; `zotune list studies` shows the studies by name"]
            )
        return parse_document(_text(path), str(path))
    if not path.name:
        raise StudyError([f"a study is a name or a .yaml file, got the folder {name_or_path}"])
    shipped = shipped_studies()
    beside = [path.with_name(path.name + suffix) for suffix in SUFFIXES]
    if str(name_or_path) not in shipped and (found := [one for one in beside if one.is_file()]):
        raise StudyError(
            [f"study {str(path)!r} is not known, but there is a file {found[0]}; give that"]
        )
    if str(name_or_path) not in shipped:
        raise StudyError([f"{unknown('study', str(name_or_path), shipped)}; or give a .yaml file"])
    return parse_document(shipped[str(name_or_path)], f"{name_or_path}.yaml")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        at = error.start + 1
        raise StudyError(
            [f"{path} is not text in UTF-8 (byte {at}); save it as such in your editor"]
        ) from None


def shipped_studies() -> dict[str, str]:
    """The texts of the studies included in zotune, by name."""
    files = resources.files("zotune.studies").iterdir()
    named = {file.name: file for file in files if file.name.endswith(".yaml")}
    names = sorted(name.removesuffix(".yaml") for name in named)
    return {name: named[f"{name}.yaml"].read_text(encoding="utf-8") for name in names}


def parse_document(text: str, source: str = "study") -> Document:
    """Parse the text of a study; errors give the line."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        data = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"{source}:{mark.line + 1}" if mark else source
        raise StudyError([f"{at}: this is not YAML: {error.problem or error.context}"]) from None
    finally:
        loader.dispose()
    if node is None or not isinstance(data, dict):
        found = "nothing" if data is None else type(data).__name__
        raise StudyError(
            [f"{source}: a study is a mapping with name, problem, budget, …, got {found}"]
        )
    twice = [f"{source}:{line}: {key} stands twice; keep one" for key, line in _twice(node)]
    if twice:
        raise StudyError(twice)
    return Document(data, dict(_places(node, (), source)), source)


def _places(node: yaml.Node, path: Path_, source: str) -> Iterator[tuple[Path_, str]]:
    """The line of every entry of every mapping and list."""
    yield path, f"{source}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            yield from _places(value, below, source)
            yield below, f"{source}:{key.start_mark.line + 1}"
    if isinstance(node, yaml.SequenceNode):
        for at, entry in enumerate(node.value):
            yield from _places(entry, (*path, str(at)), source)


def _twice(node: yaml.Node) -> Iterator[tuple[str, int]]:
    """Duplicate keys, with the later line."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                yield str(key.value), key.start_mark.line + 1
            seen.add(key.value)
            yield from _twice(value)
    if isinstance(node, yaml.SequenceNode):
        for entry in node.value:
            yield from _twice(entry)


SECTIONS = ("space", "fixed")
"""Sections with configuration keys; dots are a part of these keys."""


def apply_settings(document: Document, settings: Iterable[str], keys: Iterable[str]) -> Document:
    """The document after ``--set path=value``, each read like a line of the file.

    Args:
        document: the document of the file.
        settings: texts such as ``space.q=[1,10]`` or ``budget=500``.
        keys: the top-level keys of a study; any other bare key goes to ``fixed``.
    """
    changed = Document(deepcopy(document.data), dict(document.places), document.source)
    top = list(keys)
    complaints = [text for setting in settings for text in _apply(changed, setting, top)]
    if complaints:
        raise StudyError(complaints)
    return changed


def _apply(document: Document, setting: str, top: list[str]) -> Iterator[str]:
    name, equals, text = setting.partition("=")
    name, place = name.strip(), f"--set {setting}"
    if not equals or not name:
        yield f"{place}: write it as path=value, such as space.q=[1,10] or budget=500"
        return
    try:
        value = read_value(text)
    except yaml.YAMLError:
        yield f"{place}: the value is not YAML; quote it for the shell, such as 'space.q=[1,10]'"
        return
    path = _path_of(name, top)
    spaces = document.data.get("space")
    if path[0] == "space" and len(path) > 1 and isinstance(spaces, list):
        if len(path) < 3 or int(path[1]) >= len(spaces):
            many = len(spaces)
            yield f"{place}: space is a list of {many}; say which, such as space.0.{path[-1]}=…"
            return
        document.data["space"] = spaces = [dict(one) for one in spaces]
        spaces[int(path[1])][path[2]] = value
        document.places[path] = place
        return
    if path[0] in SECTIONS and len(path) == 2:
        _forget(document.data, path)
    parent = document.data
    for key in path[:-1]:
        below = parent.get(key)
        if key == "problem" and isinstance(below, str):
            below = {"name": below}
        if not isinstance(below, dict):
            below = {}
        parent[key] = below
        parent = below
    parent[path[-1]] = value
    document.places = {k: v for k, v in document.places.items() if k[: len(path)] != path}
    document.places[path] = place


def _path_of(name: str, top: list[str]) -> Path_:
    """The path of a dotted name; a bare configuration key belongs to ``fixed``."""
    first, _, rest = name.partition(".")
    if first in SECTIONS and rest:
        number, _, key = rest.partition(".")
        return (first, number, key) if number.isdigit() and key else (first, rest)
    if first in top:
        return tuple(name.split("."))
    return ("fixed", name)


def _forget(data: dict[str, Any], path: Path_) -> None:
    """Remove a key from ``fixed`` if it is now searched, and vice versa."""
    for section in SECTIONS:
        if section != path[0] and isinstance(data.get(section), Mapping):
            data[section] = {k: v for k, v in data[section].items() if k != path[1]}
