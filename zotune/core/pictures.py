"""How results draw themselves. What draws them stands above them, and is provided from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_load: list[Callable[[], Any]] = []


def provide_pictures(load: Callable[[], Any]) -> None:
    """Say what imports the module that draws, when the first picture is asked for."""
    _load[:] = [load]


def pictures() -> Any:
    """The module that draws runs and studies."""
    return _load[0]()
