"""Estimators, directions, updates and problems that users register, taken to workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zotune.blocksizes import BLOCK_SIZES
from zotune.directions import DIRECTIONS
from zotune.estimators import ESTIMATORS
from zotune.objectives import PROBLEMS
from zotune.steps import STEPS
from zotune.updates import UPDATES

Own = dict[str, Mapping[str, Any]]
"""Kind → name → entry."""

_REGISTRIES = (ESTIMATORS, DIRECTIONS, UPDATES, STEPS, BLOCK_SIZES, PROBLEMS)


def own_entries() -> Own:
    """What this process knows and a new one would not; Ray can carry it there."""
    return {registry.kind: registry.own for registry in _REGISTRIES if registry.own}


def adopt(own: Own) -> None:
    """Make the entries of another process known in this one."""
    for registry in _REGISTRIES:
        registry.adopt(own.get(registry.kind, {}))
