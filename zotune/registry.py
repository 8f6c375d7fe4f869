"""The registry class for estimators, updates, problems and other named entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, TypeVar

from zotune.errors import ConfigError, DuplicateNameError, unknown

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Valid names of entries and studies, which are also used for files, labels and folders."""


def require_name(kind: str, name: object) -> None:
    """Raise an error for a name that is not valid in files, labels and the command line."""
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        article = "an" if kind[0] in "aeiou" else "a"
        raise ConfigError(
            f"the name of {article} {kind} must be letters, digits, '-', '_' and '.', got "
            f'{name!r}; write register("my-{kind.replace(" ", "-")}", …)'
        )


def require_like(entry: str, returns: str, value: object, like: Tensor) -> None:
    """Raise an error if the function of an entry has not returned a tensor shaped like another.

    Args:
        entry: the kind and the name of the entry.
        returns: what it must return.
        value: what it has returned.
        like: a tensor of the shape that is required.
    """
    if isinstance(value, type(like)) and value.shape == like.shape:
        return
    shape = getattr(value, "shape", None)
    got = type(value).__name__ if shape is None else f"{type(value).__name__} {tuple(shape)}"
    raise ConfigError(
        f"{entry} must return {returns}, a {type(like).__name__} of shape {tuple(like.shape)}, "
        f"got {got}; look at its function"
    )


def summary_of(code: object) -> str:
    """The first line of an entry's docstring."""
    return (code.__doc__ or "").strip().split("\n")[0]


class Registry(Mapping[str, T]):
    """A mapping of names to entries. The modules of ``package`` are imported at the first access.

    Args:
        kind: the kind of entries, for messages.
        package: the package whose modules register entries.
        code: returns the function or class of an entry, to tell the user's from zotune's.
        also: further modules that register entries, from packages that depend on this one.
    """

    def __init__(
        self, kind: str, package: str, code: Callable[[T], object], also: Sequence[str] = ()
    ) -> None:
        self.kind = kind
        self._also = also
        self._package = package
        self._code = code
        self._entries: dict[str, T] = {}
        self._discovered = False

    def add(self, name: str, entry: T) -> T:
        """Register ``entry`` under a new name."""
        self.require_new(name)
        self._entries[name] = entry
        return entry

    def require_new(self, name: str) -> None:
        """Raise an error for a name that is invalid or taken."""
        require_name(self.kind, name)
        if name in self._entries:
            raise DuplicateNameError(
                f"{self.kind} {name!r} is registered already; choose another name"
            )

    def __getitem__(self, name: str) -> T:
        entries = self._all()
        if name not in entries:
            raise unknown(self.kind, name, entries, "one of yours is imported by --import FILE")
        return entries[name]

    @property
    def plugins(self) -> dict[str, T]:
        """Entries of users, which other processes do not have."""
        return {name: entry for name, entry in self._all().items() if self._is_plugin(entry)}

    def adopt(self, entries: Mapping[str, T]) -> None:
        """Add the entries of another process; those of this one are kept."""
        for name, entry in entries.items():
            self._all().setdefault(name, entry)

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def _is_plugin(self, entry: T) -> bool:
        home = getattr(self._code(entry), "__module__", None) or ""
        return home.partition(".")[0] != self._package.partition(".")[0]

    def _all(self) -> dict[str, T]:
        if not self._discovered:
            self._discovered = True
            package = import_module(self._package)
            for module in iter_modules(package.__path__):
                import_module(f"{self._package}.{module.name}")
            for name in self._also:
                import_module(name)
        return self._entries
