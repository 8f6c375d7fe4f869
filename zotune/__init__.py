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

if TYPE_CHECKING:
    from zotune.errors import ZotuneError
    from zotune.objectives import Objective, objective
    from zotune.run import Run, minimize

_HOMES = {
    "Objective": "zotune.objectives",
    "Run": "zotune.run",
    "ZotuneError": "zotune.errors",
    "minimize": "zotune.run",
    "objective": "zotune.objectives",
}

__all__ = [
    "Objective",
    "Run",
    "ZotuneError",
    "__version__",
    "minimize",
    "objective",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import zotune`` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'zotune' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
