"""MLflow's import in a process that does nothing but record: without pandas, which takes longer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any

NOT_NEEDED = ("numpy", "pandas", "pyarrow")
"""What MLflow imports for data sets and models where it is installed, and does well without."""


class _Absent(MetaPathFinder):
    """Finds that the modules are not installed."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname in NOT_NEEDED:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def import_mlflow() -> None:
    """Import MLflow's client as on a machine that has only mlflow-skinny, in 0.6 of the time.

    What is imported afterwards, by plugins of MLflow for example, finds everything. If MLflow needs
    one of the modules, it is imported with them.
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
