"""For tests and doctests alike: what an example registers is gone when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Some virtual machines announce AMX and end a process that uses it ("Illegal instruction"), as
# bfloat16 products do. The tests, and the processes that they start, do without.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

from zotune.directions import DIRECTIONS
from zotune.estimators import ESTIMATORS
from zotune.objectives import PROBLEMS
from zotune.updates import UPDATES

pytest_plugins = ["tests.browser", "tests.packages", "tests.servers"]


SHARED = {"shared_ray", "running_server", "browser"}
"""Fixtures that are made once, and should not be made once a worker."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Among several workers, tests that share something large go to one of them."""
    for item in items:
        if SHARED & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("shared"))


@pytest.fixture(autouse=True)
def registries_are_left_as_they_were() -> Iterator[None]:
    registries = (ESTIMATORS, DIRECTIONS, UPDATES, PROBLEMS)
    before = [dict(registry._all()) for registry in registries]  # type: ignore[attr-defined]
    yield
    for registry, entries in zip(registries, before, strict=True):
        registry._entries = entries  # type: ignore[assignment]
