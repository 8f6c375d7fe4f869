"""Provenance of a record: versions, machine, threads, and a hash of the objective's code."""

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
    """Versions of packages and Python, and the machine; does not import torch."""
    return dict(_versions())


def provenance(objective: Any) -> dict[str, str]:
    """Everything besides the configuration that the exact bits of a run depend on.

    ``threads`` and ``cpu_capability`` (such as AVX512) determine torch's order of summation;
    ``code`` is a short hash of the objective's code, the same in every process.
    """
    import torch

    return versions() | {
        "threads": str(torch.get_num_threads()),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "code": code_of(objective),
    }
