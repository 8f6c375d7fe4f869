"""Checks of user input, and names of dtypes."""

from __future__ import annotations

import numbers
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from zotune._lazy import LazyModule
from zotune.errors import ConfigError, one_of

if TYPE_CHECKING:
    import torch
else:
    torch = LazyModule("torch")

DTYPES = ("float64", "float32")


def positive_int(what: str, value: object) -> int:
    """``value`` if it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ConfigError(f"{what} must be a whole number of at least 1, got {value!r}")
    return int(value)


def dimension_of(x0: Any, what: str = "x0") -> int:
    """The dimension of a start, (d,) or (replicates, d)."""
    try:
        start = torch.as_tensor(x0.copy() if isinstance(x0, np.ndarray) else x0)
    except (TypeError, ValueError, RuntimeError):
        start = torch.empty(())
    if start.dim() not in (1, 2) or start.is_complex():
        raise ConfigError(
            f"{what} must be a vector, (d,), or one for each replicate, (replicates, d), "
            f"got {x0!r}; give [0.0] for a function of one number"
        )
    return start.shape[-1]


def parse_dtype(name: str) -> torch.dtype:
    """The torch dtype of a name in a study file."""
    dtype = getattr(torch, one_of("dtype", name, DTYPES))
    assert isinstance(dtype, torch.dtype)  # for the type checker
    return dtype


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype in configurations and messages."""
    return str(dtype).removeprefix("torch.")


def checked_smoothness(L: object) -> float | None:
    """L as a float, if it can be the Lipschitz constant of a gradient."""
    if L is None:
        return None
    if isinstance(L, bool) or not isinstance(L, numbers.Real) or not 0 < float(L) < inf:
        raise ConfigError(
            f"L must be a positive number, the Lipschitz constant of the gradient, got {L!r}; "
            "leave it out where it is not known"
        )
    return float(L)


def short(value: Any) -> str:
    """A value as text for messages, on one line of at most 60 characters."""
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."
