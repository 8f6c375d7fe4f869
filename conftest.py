"""For tests and doctests alike: what an example registers is gone when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Some virtual machines announce AMX and end a process that uses it ("Illegal instruction"), as
# bfloat16 products do. The tests, and the processes that they start, do without.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# Ray's workers have a niceness of 15, and stand still for minutes where anything else computes.
os.environ.setdefault("RAY_worker_niceness", "0")

from zotune.blocksizes import BLOCK_SIZES
from zotune.directions import DIRECTIONS
from zotune.estimators import ESTIMATORS
from zotune.methods import METHODS
from zotune.objectives import PROBLEMS
from zotune.steps import STEPS
from zotune.updates import UPDATES

pytest_plugins = ["tests.servers", "tests.browser", "tests.devices", "tests.packages"]


DRAWN = {"browser", "running_server", "recorded"}
"""Fixtures that take longest to make: a browser, a server of MLflow's, a study to look at."""
LOOKED_AT = "looked-at"
"""The group of all tests that use one of them: it takes longest, and begins first."""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Distribute tests among workers: those that share something large stay together.

    Each worker has a Ray of its own, so that any of them takes any test that needs one. What takes
    long comes first, and thousands of quick tests keep all workers busy to the end.
    """
    for item in items:
        group = _group(item)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_place)


def _group(item: pytest.Item) -> str | None:
    """What an item must share a worker with; None for any worker."""
    if _fixtures(item) & DRAWN:
        return LOOKED_AT
    return item.location[0] if _shares_within_module(item) else None


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def _shares_within_module(item: pytest.Item) -> bool:
    """Whether an item uses a fixture that is made once for its module."""
    definitions = getattr(item, "_fixtureinfo", None)
    found = definitions.name2fixturedefs.values() if definitions is not None else ()
    return any(fixtures[-1].scope == "module" for fixtures in found)


def _place(item: pytest.Item) -> int:
    group = _group(item)
    if group is not None:
        return 0 if group == LOOKED_AT else 1
    return 2 if "shared_ray" in _fixtures(item) else 3


@pytest.fixture(autouse=True)
def registries_are_left_as_they_were() -> Iterator[None]:
    registries = (METHODS, ESTIMATORS, DIRECTIONS, UPDATES, STEPS, BLOCK_SIZES, PROBLEMS)
    before = [dict(registry._all()) for registry in registries]  # type: ignore[attr-defined]
    yield
    for registry, entries in zip(registries, before, strict=True):
        registry._entries = entries  # type: ignore[assignment]
