"""One registry for all that can be named: estimators, updates, problems; a file is an entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from zotune.errors import ConfigError, DuplicateNameError, unknown

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""What entries and studies may be called: files, labels and folders have their names."""


def require_name(kind: str, name: object) -> None:
    """Refuse a name that files, labels and the command line could not hold."""
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        article = "an" if kind[0] in "aeiou" else "a"
        raise ConfigError(
            f"the name of {article} {kind} must be letters, digits, '-', '_' and '.', got "
            f'{name!r}; write register("my-{kind.replace(" ", "-")}", …)'
        )


def summary_of(code: object) -> str:
    """What an entry is, in the first line of its docstring."""
    return (code.__doc__ or "").strip().split("\n")[0]


class Registry(Mapping[str, T]):
    """Names to entries. The modules of ``package`` register themselves when first looked at.

    Args:
        kind: what errors call an entry.
        package: the modules to look at.
        code: the function or class of an entry, which tells who has written it.
        also: further modules that register entries, of packages that stand above this one.
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
        """Register ``entry``; a name is given once."""
        self.require_new(name)
        self._entries[name] = entry
        return entry

    def require_new(self, name: str) -> None:
        """Refuse a name that cannot be one, or that is taken."""
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
        """Entries that were written outside of zotune; other processes do not know them."""
        return {name: entry for name, entry in self._all().items() if self._is_plugin(entry)}

    def adopt(self, entries: Mapping[str, T]) -> None:
        """Take the entries of another process; those of this one stay."""
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
