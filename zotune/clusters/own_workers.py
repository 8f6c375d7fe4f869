"""Speed up the start of Tune's workers in a private Ray, by inherited environment variables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from zotune.clusters.tokens import set_variables

GIVEN = {"PL_DISABLE_FORK": "1"}
"""Variables that Tune sets for its workers, besides those of this process."""

_started_with: Mapping[str, str] | None = None
"""The variables that workers of our private Ray inherit; None if there is none."""


@contextmanager
def inherited() -> Iterator[None]:
    """Set Tune's variables while a private Ray is started, so that its workers inherit them."""
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
    """Let Tune set only variables that the workers of our private Ray do not inherit.

    Ray starts a worker with its own environment through another process, which imports Ray first:
    a second of CPU time for each. Does nothing for another Ray, or if Tune's API has changed.
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
