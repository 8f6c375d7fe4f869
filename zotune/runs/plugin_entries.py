"""Transfer registry entries of users (estimators, directions, updates, problems) to workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zotune.blocksizes import BLOCK_SIZES
from zotune.directions import DIRECTIONS
from zotune.estimators import ESTIMATORS
from zotune.methods import METHODS
from zotune.objectives import PROBLEMS
from zotune.steps import STEPS
from zotune.updates import UPDATES

Plugins = dict[str, Mapping[str, Any]]
"""Kind → name → entry."""

_REGISTRIES = (METHODS, ESTIMATORS, DIRECTIONS, UPDATES, STEPS, BLOCK_SIZES, PROBLEMS)


def plugin_entries() -> Plugins:
    """The entries of this process that a new process would lack; Ray can serialise them."""
    return {registry.kind: registry.plugins for registry in _REGISTRIES if registry.plugins}


def adopt_plugins(plugins: Plugins) -> None:
    """Register the entries of another process in this one."""
    for registry in _REGISTRIES:
        registry.adopt(plugins.get(registry.kind, {}))
