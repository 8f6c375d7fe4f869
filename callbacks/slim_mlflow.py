"""Import MLflow quickly, without pandas, in a process that only records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any

NOT_NEEDED = ("numpy", "pandas", "pyarrow")
"""Optional imports of MLflow, for data sets and models."""


class _Absent(MetaPathFinder):
    """An import finder that hides the modules."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname in NOT_NEEDED:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def import_mlflow() -> None:
    """Import MLflow's client as if only mlflow-skinny was installed, in 0.6 of the time.

    Later imports, for example by plugins of MLflow, find the modules. If MLflow does need one of
    them, it is imported again without hiding them.
    """
    try:
        with _hidden():
            import_module("mlflow.tracking")
    except ImportError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "mlflow"]:
            del sys.modules[name]
        import_module("mlflow.tracking")


@contextmanager
def _hidden() -> Iterator[None]:
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        yield
    finally:
        sys.meta_path.remove(absent)
