"""Errors that say in one line what was wanted, what came and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ZotuneError(Exception):
    """Everything zotune raises on purpose."""


class ConfigError(ZotuneError, ValueError):
    """A setting that cannot be used as it is."""


class UnknownNameError(ConfigError):
    """A name that nothing is registered under."""


class DuplicateNameError(ZotuneError, ValueError):
    """A name that is taken already."""


class ObjectiveError(ZotuneError, TypeError):
    """An objective that answered with something else than numbers."""


class CheckpointError(ZotuneError, ValueError):
    """A checkpoint that is damaged, foreign or from another format."""


class OutOfMemory(ZotuneError, MemoryError):
    """More memory was needed than there is."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint such as ``" (did you mean 'align'?)"``, or nothing where no name is near."""
    names = list(known)
    shortened = [each for each in names if len(each) > 2 and name.startswith(each)]
    same = [each for each in names if each.lower() == name.lower()]
    close = same or shortened or get_close_matches(name, names, n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def unknown(kind: str, name: object, known: Iterable[str], help: str = "") -> UnknownNameError:
    """The error for a name of which nothing is known; ``help`` where no known name is near."""
    names = sorted(known)
    hint = nearest(name, names) if isinstance(name, str) else ""
    rest = f"; {help}" if help and not hint else ""
    return UnknownNameError(f"{kind} {name!r} is not known{hint}; known: {', '.join(names)}{rest}")


def one_of(kind: str, name: object, known: Iterable[str]) -> str:
    """Return ``name`` if it is among ``known``, else raise the error that lists them."""
    names = list(known)
    if isinstance(name, str) and name in names:
        return name
    raise unknown(kind, name, names)
