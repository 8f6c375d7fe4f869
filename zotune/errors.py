"""Errors. Messages say in one line what was required, what was given and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ZotuneError(Exception):
    """Base class of all errors raised by zotune."""


class ConfigError(ZotuneError, ValueError):
    """An invalid setting."""


class UnknownNameError(ConfigError):
    """A name that is not registered."""


class DuplicateNameError(ZotuneError, ValueError):
    """A name that is taken already."""


class ObjectiveError(ZotuneError, TypeError):
    """An objective that does not return valid numbers."""


class CheckpointError(ZotuneError, ValueError):
    """A checkpoint that is damaged, of another program, or of another format."""


class OutOfMemory(ZotuneError, MemoryError):
    """Not enough memory."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint such as ``" (did you mean 'align'?)"``; empty if no name is similar."""
    names = list(known)
    shortened = [each for each in names if len(each) > 2 and name.startswith(each)]
    same = [each for each in names if each.lower() == name.lower()]
    close = same or shortened or get_close_matches(name, names, n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def unknown(kind: str, name: object, known: Iterable[str], help: str = "") -> UnknownNameError:
    """The error for an unknown name; ``help`` is added if no known name is similar."""
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
