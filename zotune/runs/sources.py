"""Objectives as sent to workers: bound to a trainable here, and built in the worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from zotune.clusters.portable import require_portable
from zotune.core.code import code_of, refusal, takes
from zotune.errors import ConfigError, ObjectiveError
from zotune.objectives import (
    CallableObjective,
    Objective,
    dimension_of,
    dtype_name,
    objective,
    positive_int,
)
from zotune.weights.objective import WeightsObjective

CONFIG = "config"
"""Name of the parameter by which a function gets its own keys of a Tuner's space."""


@dataclass(frozen=True)
class Factory:
    """A function that builds the objective in the process that evaluates it; see ``factory``."""

    fn: Callable[..., Objective | WeightsObjective]


def factory(fn: Callable[..., Objective | WeightsObjective]) -> Factory:
    """Mark a function that builds an objective from the data, once in each worker.

    Use it if the objective cannot be serialised (an open simulator, a compiled model), or if it is
    built from data that all trials share. In a Tuner it may take ``config``, too, as
    ``fn(data, config)``: the keys of the trial's configuration that are not settings.

    >>> import zotune
    >>> make = zotune.factory(lambda data: zotune.objective(lambda x: (x - data).norm(), dim=3))
    """
    return Factory(fn)


@dataclass(frozen=True)
class Source:
    """An objective, a function with its dimension, a factory or a module, bound to a trainable."""

    target: Objective | WeightsObjective | Factory | nn.Module | Callable[..., Any]
    dim: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of ``zotune.objective`` for a plain function, such as metrics."""

    def __post_init__(self) -> None:
        plain = not isinstance(self.target, Objective | WeightsObjective | Factory | nn.Module)
        if self.options and not plain:
            key = next(iter(self.options))
            raise ConfigError(
                f"{key} is for a plain function; for an objective of yours give it to "
                f"zotune.objective(fn, dim, {key}=…)"
            )
        if plain and not callable(self.target):
            raise ObjectiveError(
                "a trainable is bound to an Objective, a function, a zotune.factory or a "
                f"torch.nn.Module, got {type(self.target).__name__}"
            )
        if plain and self.dim is None and "start" not in self.options:
            raise ConfigError(
                "a plain function does not know its dimension; give dim=…, "
                "or wrap it with zotune.objective(fn, dim)"
            )

    @property
    def function(self) -> Callable[..., Any] | None:
        """The user's function, which takes data and further arguments; None if there is none."""
        if isinstance(self.target, Factory | CallableObjective):
            return self.target.fn
        return (
            None
            if isinstance(self.target, Objective | WeightsObjective | nn.Module)
            else (self.target)
        )

    @property
    def takes_config(self) -> bool:
        """Whether the function takes the keys of a configuration that are not settings."""
        return self.function is not None and takes(self.function, CONFIG)

    @property
    def name(self) -> str:
        """A readable name for the trainable's class."""
        target = self.target.fn if isinstance(self.target, Factory) else self.target
        if isinstance(target, Objective | WeightsObjective):
            return target.name
        name: str = getattr(target, "__name__", type(target).__name__)
        return name.strip("<>")

    @property
    def code(self) -> str:
        """A short hash of the code and its location; the same in every run of one script."""
        return code_of(self.target.fn if isinstance(self.target, Factory) else self.target)

    def check(self, data: Any) -> None:
        """Raise an error for invalid options or data before a worker uses them."""
        if self.options:
            require_exceptions(self.options.get("failures", ()))
            self._wrapped(torch.device("cpu"))
        self.require_taken(data, {})

    def require_taken(self, data: Any, more: Mapping[str, Any]) -> None:
        """Raise an error for data or further arguments that the function does not take."""
        if self.function is None:
            if isinstance(self.target, nn.Module) and not more:
                return
            if data is not None or more:
                what = next(iter(more), "data")
                raise ConfigError(
                    f"{what} is for a function of yours, called fn(x, data), or for a "
                    f"zotune.factory; got {what} with {type(self.target).__name__}"
                )
            return
        count = 1 if isinstance(self.target, Factory) or data is None else 2
        if wrong := refusal(self.function, count, self._names(more), more=True):
            raise ConfigError(
                f"{self.name} does not take its arguments: {wrong}; it is called fn(x), with "
                "data=… fn(x, data), and with the names that it takes of config and of "
                "tune.with_parameters"
            )

    def _names(self, more: Mapping[str, Any]) -> list[str]:
        return [*([CONFIG] if self.takes_config else []), *more]

    def build(
        self,
        data: Any,
        device: torch.device,
        config: Mapping[str, Any] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> Objective | WeightsObjective:
        """Build the objective in the process that evaluates it; weights are as when bound.

        Args:
            data: the data of its function.
            device: device of the points.
            config: keys of the trial's configuration for the function, if it takes ``config``.
            more: further arguments of the function, by name.
        """
        target, named = self.target, dict(more or {})
        if self.takes_config:
            named[CONFIG] = deepcopy(dict(config or {}))  # the function may change it
        if isinstance(target, Factory):
            made = target.fn(data, **named)
            if not isinstance(made, Objective | WeightsObjective):
                raise ObjectiveError(
                    f"a factory returns an Objective, got {type(made).__name__}; "
                    "wrap it with zotune.objective(fn, dim)"
                )
            return made.bound() if isinstance(made, CallableObjective) else made
        if isinstance(target, nn.Module):
            return ModuleObjective(target, data, device)
        if isinstance(target, WeightsObjective):
            return deepcopy(target)
        if isinstance(target, Objective) and not isinstance(target, CallableObjective):
            return target
        whole = target if isinstance(target, CallableObjective) else self._wrapped(device)
        return whole.bound(data, named)

    def _wrapped(self, device: torch.device) -> CallableObjective:
        """A plain function as an objective, without its arguments."""
        start = self.options.get("start")
        dim = dimension_of(start, "start") if self.dim is None else positive_int("dim", self.dim)
        assert self.function is not None  # of a plain function
        return objective(self.function, dim, device=device, name=self.name, **self.options)


def require_exceptions(failures: Any) -> None:
    """Raise an error if ``failures`` has entries that are not exception types."""
    types = failures if isinstance(failures, tuple | list) else (failures,)
    wrong = [one for one in types if not (isinstance(one, type) and issubclass(one, BaseException))]
    if wrong:
        raise ConfigError(
            f"failures must be types of exceptions, such as (OSError, ValueError), got {wrong[0]!r}"
        )


def require_sendable(target: Any, *others: Any) -> None:
    """Raise an error for objects that cannot be serialised; modules can, but may be large."""
    large = isinstance(target, nn.Module | WeightsObjective)
    require_portable(*([] if large else [target]), *others)


class ModuleObjective(Objective):
    """The loss of a torch module as a function of its trainable parameters, flattened.

    The loss is ``module.loss(data)``, or ``module(data)`` if there is no such method. The start is
    the module's current parameters. The module itself is not changed.
    """

    def __init__(self, module: nn.Module, data: Any, device: torch.device) -> None:
        self._module = _LossOf(module).to(device).eval()
        self._data = data
        named = self._module.named_parameters()
        self._shapes = {name: p for name, p in named if p.requires_grad}
        if not self._shapes:
            raise ObjectiveError(
                f"{type(module).__name__} has no trainable parameters; "
                "at least one must have requires_grad=True"
            )
        dtypes = {p.dtype for p in self._shapes.values()}
        if len(dtypes) > 1:
            found = ", ".join(sorted(map(dtype_name, dtypes)))
            raise ObjectiveError(f"trainable parameters must share one dtype, got {found}")
        dim = sum(p.numel() for p in self._shapes.values())
        super().__init__(type(module).__name__, dim, dtype=dtypes.pop(), device=device)

    @property
    def points_per_call(self) -> int:
        """Rows are evaluated one by one."""
        return 1

    def values(self, points: Tensor) -> Tensor:
        """The loss with each row of ``points`` for the parameters."""
        losses = [self._loss(point) for point in points]
        return torch.stack(losses) if losses else points.new_empty(0, dtype=self.value_dtype)

    def start(self) -> Tensor:
        """The module's current parameters."""
        return torch.cat([p.detach().flatten() for p in self._shapes.values()])

    def _loss(self, point: Tensor) -> Tensor:
        sizes = [p.numel() for p in self._shapes.values()]
        parts = zip(self._shapes.items(), torch.split(point, sizes), strict=True)
        parameters = {name: part.view_as(p) for (name, p), part in parts}
        loss = torch.func.functional_call(self._module, parameters, (self._data,))
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise ObjectiveError(f"a module's loss is one number, got {shape}; reduce it")
        return loss.reshape(()).to(self.value_dtype)


class _LossOf(nn.Module):
    """Calls a module's ``loss``, if it has one, as ``forward``, as ``functional_call`` needs it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, data: Any) -> Any:
        loss = getattr(self.module, "loss", self.module)
        return loss(data)
