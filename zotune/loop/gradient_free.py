"""A decorator that disables autograd in the loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
Result = TypeVar("Result")
Owner = TypeVar("Owner")


def gradient_free(
    method: Callable[Concatenate[Owner, P], Result],
) -> Callable[Concatenate[Owner, P], Result]:
    """Run a lane's method under ``no_grad``, or ``inference_mode`` if the objective is pure."""

    @wraps(method)
    def call(lane: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        iterate: Any = lane.iterate  # type: ignore[attr-defined]
        with torch.inference_mode() if iterate.pure else torch.no_grad():
            return method(lane, *args, **kwargs)

    return call
