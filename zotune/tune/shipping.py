"""Trainables that take the registry entries of the driver with them to their workers."""

from __future__ import annotations

import copyreg
from abc import ABCMeta
from functools import reduce
from importlib import import_module
from typing import Any

from zotune.runs.plugin_entries import Plugins, adopt_plugins, plugin_entries


class Shipped(ABCMeta):
    """The metaclass of trainables, whose classes are serialised with the driver's entries.

    Ray serialises an importable class by its name alone; a worker would then lack the estimators
    and problems that the driver's script has registered. It derives from ABCMeta so that a class
    of users may have abstract bases, too.
    """


def _with_entries(cls: type) -> tuple[Any, ...]:
    return _arrived, (cls.__module__, cls.__qualname__, plugin_entries())


def _arrived(module: str, name: str, entries: Plugins) -> Any:
    """The class, after its entries have been registered in this process."""
    adopt_plugins(entries)
    return reduce(getattr, name.split("."), import_module(module))


copyreg.pickle(Shipped, _with_entries)
