"""Objectives as sent to workers: bound to a trainable here, and built in the worker."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from zotune.clusters.portable import require_portable
from zotune.core.code import code_of
from zotune.errors import ConfigError, ObjectiveError
from zotune.objectives import Objective, dtype_name, objective, positive_int
from zotune.weights.objective import WeightsObjective


@dataclass(frozen=True)
class Factory:
    """A function that builds the objective in the process that evaluates it; see ``factory``."""

    fn: Callable[[Any], Objective | WeightsObjective]


def factory(fn: Callable[[Any], Objective | WeightsObjective]) -> Factory:
    """Mark a function that builds an objective from the data, once in each worker.

    Use it if the objective cannot be serialised (an open simulator, a compiled model), or if it is
    built from data that all trials share.

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
        if plain and self.dim is None:
            raise ConfigError(
                "a plain function does not know its dimension; give dim=…, "
                "or wrap it with zotune.objective(fn, dim)"
            )

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

    def check_options(self, data: Any) -> None:
        """Raise an error for invalid options before a worker uses them."""
        if self.options:
            require_exceptions(self.options.get("failures", ()))
            self.build(data, torch.device("cpu"))

    def build(self, data: Any, device: torch.device) -> Objective | WeightsObjective:
        """Build the objective in the process that evaluates it; weights are as when bound."""
        target = self.target
        if isinstance(target, Factory):
            made = target.fn(data)
            if not isinstance(made, Objective | WeightsObjective):
                raise ObjectiveError(
                    f"a factory returns an Objective, got {type(made).__name__}; "
                    "wrap it with zotune.objective(fn, dim)"
                )
            return made
        if isinstance(target, nn.Module):
            return ModuleObjective(target, data, device)
        if isinstance(target, WeightsObjective):
            return deepcopy(target)
        if isinstance(target, Objective):
            return target
        fn = target if data is None else bound_to(target, data)
        dim = positive_int("dim", self.dim)
        return objective(fn, dim, device=device, name=self.name, **self.options)


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


def with_data(fn: Callable[[Tensor, Any], Any], data: Any, x: Tensor) -> Any:
    """Call a function with its data."""
    return fn(x, data)


async def with_data_awaited(fn: Callable[..., Any], data: Any, x: Any) -> Any:
    """The same of an ``async def``."""
    return await fn(x, data)


def bound_to(fn: Callable[..., Any], data: Any) -> Callable[..., Any]:
    """A function of x alone; an ``async def`` stays one."""
    awaited = inspect.iscoroutinefunction(fn)
    return partial(with_data_awaited if awaited else with_data, fn, data)


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
