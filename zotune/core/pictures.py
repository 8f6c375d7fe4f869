"""Plotting for results without importing upwards: the reporting package registers its module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_load: list[Callable[[], Any]] = []


def provide_pictures(load: Callable[[], Any]) -> None:
    """Register the function that imports the plotting module, called at the first plot."""
    _load[:] = [load]


def pictures() -> Any:
    """The plotting module."""
    return _load[0]()
