"""zotune: zeroth-order optimization as Ray Tune trainables, measured in queries.

>>> import zotune
>>> run = zotune.minimize(lambda x: ((x - 1) ** 2).sum(), x0=[0.0] * 10, q=10, budget=500)
>>> bool(run.best_loss < 1e-3)
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zotune._version import __version__
from zotune.core.pictures import provide_pictures

if TYPE_CHECKING:
    from zotune.errors import ZotuneError
    from zotune.objectives import Objective, objective
    from zotune.results.loading import load_run
    from zotune.runs.minimize import minimize
    from zotune.runs.minimizer import Minimizer
    from zotune.runs.run import Run
    from zotune.runs.scipy_method import scipy
    from zotune.runs.sources import factory
    from zotune.study import Study, load_study
    from zotune.study.quiet import local_ray
    from zotune.theory.planning import Plan, plan
    from zotune.tune.searcher import ZotuneSearch
    from zotune.tune.space import search_space
    from zotune.tune.trainables import ZOTrainable, trainable

_HOMES = {
    "Objective": "zotune.objectives",
    "Run": "zotune.runs.run",
    "ZOTrainable": "zotune.tune.trainables",
    "ZotuneError": "zotune.errors",
    "ZotuneSearch": "zotune.tune.searcher",
    "Study": "zotune.study",
    "factory": "zotune.runs.sources",
    "Minimizer": "zotune.runs.minimizer",
    "load_run": "zotune.results.loading",
    "load_study": "zotune.study",
    "local_ray": "zotune.study.quiet",
    "minimize": "zotune.runs.minimize",
    "objective": "zotune.objectives",
    "Plan": "zotune.theory.planning",
    "plan": "zotune.theory.planning",
    "scipy": "zotune.runs.scipy_method",
    "search_space": "zotune.tune.space",
    "trainable": "zotune.tune.trainables",
}

_PACKAGES = {
    *("blocksizes", "callbacks", "claims", "directions", "estimators", "gest", "language"),
    *("methods", "objectives", "optuna", "steps", "studies", "theory", "updates", "weights"),
}

provide_pictures(lambda: import_module("zotune.reporting.plots"))

__all__ = [
    "Minimizer",
    "Objective",
    "Plan",
    "Run",
    "Study",
    "ZOTrainable",
    "ZotuneError",
    "ZotuneSearch",
    "__version__",
    "factory",
    "load_run",
    "load_study",
    "local_ray",
    "minimize",
    "objective",
    "plan",
    "scipy",
    "search_space",
    "trainable",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import zotune`` costs nothing."""
    if name in _PACKAGES:
        return import_module(f"zotune.{name}")
    if name not in _HOMES:
        from zotune.errors import nearest

        hint = "" if name.startswith("_") else nearest(name, __all__)
        raise AttributeError(f"module 'zotune' has no attribute {name!r}{hint}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
