"""Tune's workers in a Ray of our own, which have the variables that Tune gives them anyway."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from zotune.clusters.tokens import set_variables

GIVEN = {"PL_DISABLE_FORK": "1"}
"""What Tune sets for its workers, besides variables of this process."""

_started_with: Mapping[str, str] | None = None
"""The variables that the workers of our own Ray inherit; None where there is no such Ray."""


@contextmanager
def inherited() -> Iterator[None]:
    """Start a Ray of our own here: its workers inherit what Tune would give to them."""
    global _started_with
    variables, outer = {key: os.environ.get(key) for key in GIVEN}, _started_with
    os.environ.update(GIVEN)
    _started_with = dict(os.environ)
    try:
        yield
    finally:
        _started_with = outer
        set_variables(variables)


@contextmanager
def environment_shared() -> Iterator[None]:
    """Let Tune give its workers only variables that the workers of our own Ray do not inherit.

    Ray starts a worker that has an environment of its own by another process, which imports Ray
    first: a second of computing for each of them. A Ray that is not ours, and what a later Tune no
    longer has, is passed over.
    """
    if _started_with is None:
        yield
        return
    from ray.tune.execution import class_cache

    names = ("DEFAULT_ENV_VARS", "ENV_VARS_TO_PROPAGATE")
    before = {name: class_cache.__dict__[name] for name in names if name in class_cache.__dict__}
    if len(before) < len(names):
        yield
        return
    given, taken = (before[name] for name in names)
    lacking = {key: value for key, value in given.items() if _started_with.get(key) != value}
    changed = {key for key in taken if os.environ.get(key) != _started_with.get(key)}
    class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE = lacking, changed
    try:
        yield
    finally:
        class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE = given, taken
