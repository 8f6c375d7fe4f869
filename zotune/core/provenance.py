"""What a record was made with: versions, the machine, threads, and the code of the objective."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from zotune.core.code import code_of

PACKAGES = ("zotune", "ray", "mlflow", "torch")


@cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "machine": platform.machine()}
    found |= {"system": platform.system(), "cpus": str(os.cpu_count())}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def versions() -> dict[str, str]:
    """Packages, Python and the machine; torch is not imported for it."""
    return dict(_versions())


def provenance(objective: Any) -> dict[str, str]:
    """What the bits of a run depend on beside its configuration.

    ``threads`` and ``cpu_capability`` (such as AVX512) decide in which order torch adds;
    ``code`` is a short hash of what the objective does, the same in every process.
    """
    import torch

    return versions() | {
        "threads": str(torch.get_num_threads()),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "code": code_of(objective),
    }
