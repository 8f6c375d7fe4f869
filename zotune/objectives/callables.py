"""``zotune.objective``: wrap a callable of one vector or a batch, of tensors or numpy arrays."""

from __future__ import annotations

import asyncio
import inspect
import numbers
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from zotune._lazy import LazyModule
from zotune.core.code import refusal
from zotune.core.merit import merit
from zotune.core.names import ROW_KEYS
from zotune.errors import ConfigError, ObjectiveError, one_of
from zotune.objectives.checks import (
    checked_smoothness,
    dtype_name,
    parse_dtype,
    positive_int,
    short,
)
from zotune.objectives.protocol import Objective
from zotune.objectives.residuals import checked_residuals, residual_row, residual_rows

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")

TORCH, NUMPY = "torch", "numpy"
T = TypeVar("T")
_ABOUT_TENSORS = re.compile(r"tensor|torch|dtype|scalar type", re.IGNORECASE)
"""Messages of errors that a user's function may raise because it got a tensor."""


class CallableObjective(Objective):
    """A user's function of one vector or of a batch of vectors."""

    metrics: Mapping[str, CallableObjective]

    def __init__(
        self,
        fn: Callable[..., Any],
        dim: int,
        *,
        batched: bool,
        dtype: torch.dtype,
        device: torch.device | str,
        name: str,
        start: Any = None,
        failures: tuple[type[BaseException], ...] = (),
        array: str | None = None,
        residuals: int | bool = False,
    ) -> None:
        super().__init__(name, dim, dtype=dtype, device=device)
        self.fn, self.residuals = fn, residuals
        self._arguments: tuple[Any, ...] = ()
        """Data, which the function gets after the point."""
        self._named: dict[str, Any] = {}
        """Further arguments, by name."""
        self.batched = batched
        self.failures = failures
        self.failure = ""
        """The exception of the last failed evaluation, as text."""
        self.awaited = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
            getattr(fn, "__call__", None)  # noqa: B004
        )
        """Whether it is an ``async def``."""
        self._numpy = _wants_numpy(fn) if array is None else array == NUMPY
        """Whether the function gets numpy arrays; None until its first call."""
        self._guess = _named_in(fn)
        """Whether to try arrays first if there is no annotation; None: not known."""
        self._leaves_alone = False
        """Whether the first call was checked not to change its argument."""
        self._start = super().start() if start is None else self._checked_start(start)

    @property
    def points_per_call(self) -> int:
        """One, unless the function is batched or asynchronous."""
        return super().points_per_call if self.batched or self.awaited else 1

    def prefer_arrays(self) -> None:
        """Try numpy arrays first, also for metrics, if the code does not name numpy or torch."""
        self._guess = True if self._guess is None else self._guess
        for metric in self.metrics.values():
            metric.prefer_arrays()

    def start(self) -> Tensor:
        """As given, or zero."""
        return self._start

    def bound(self, data: Any = None, named: Mapping[str, Any] | None = None) -> CallableObjective:
        """The same objective, whose function is called with its data and further arguments.

        Args:
            data: its second argument; None: there is none.
            named: further arguments, by name.
        """
        whole = self if data is None and not named else copy(self)
        if whole is not self:
            whole._arguments = self._arguments if data is None else (data,)
            whole._named = {**self._named, **(named or {})}
        whole.require_arguments()
        return whole

    def require_arguments(self) -> None:
        """Raise an error if the function needs other arguments than those that it gets."""
        if wrong := refusal(self.fn, 1 + len(self._arguments), self._named):
            raise ConfigError(
                f"an objective must take one vector: {wrong}; with data=…, it is called "
                "fn(x, data); only in a Tuner it can take config, or what tune.with_parameters adds"
            )

    def _checked_start(self, start: Any) -> Tensor:
        own = start.copy() if isinstance(start, np.ndarray) else start  # Ray's are read-only
        point = torch.as_tensor(own, dtype=self.dtype, device=self.device)
        if point.shape != (self.dim,):
            raise ConfigError(
                f"start must have shape ({self.dim},), one coordinate for each dimension, "
                f"got {tuple(point.shape)}"
            )
        return point

    def values(self, points: Tensor) -> Tensor:
        """Call the user's function, which must return one number per point, or residuals."""
        if self.residuals:
            found: Tensor = merit(self.outputs(points))
            return found
        if self.batched:
            return self._checked_batch(self._called(points), len(points))
        return torch.tensor(self._each(points), dtype=self.value_dtype, device=self.device)

    def outputs(self, points: Tensor) -> Tensor:
        """Call the user's function, which must return a vector of residuals per point."""
        found = self._called(points) if self.batched else self._each(points)
        rows = residual_rows(found, len(points), self.residuals)
        if self.residuals is True and np.isfinite(rows).all(-1).any():
            self.residuals = rows.shape[1]
        return torch.from_numpy(rows).to(self.device, self.value_dtype)

    def fingerprint(self) -> dict[str, Any]:
        """With whether it returns residuals."""
        return super().fingerprint() | ({"residuals": True} if self.residuals else {})

    def _each(self, points: Tensor) -> list[Any]:
        """What the function returns at each point; inf where it has failed."""
        if self.awaited:
            return side_by_side([self._awaited_value(point) for point in points])
        return [self._value(point) for point in points]

    def _read(self, result: Any) -> Any:
        """The result at one point, as a number or as a vector of residuals."""
        return residual_row(result) if self.residuals else _number(result)

    def _value(self, point: Tensor) -> Any:
        """The value of the function; inf for a failed evaluation."""
        try:
            return self._read(self._called(point))
        except self.failures as error:
            return self._failed(error)

    def _failed(self, error: BaseException) -> float:
        """The value of an evaluation that has failed; the error is kept for messages."""
        self.failed += 1
        self.failure = f"{type(error).__name__}: {error}"[:200]
        return inf

    async def _awaited_value(self, point: Tensor) -> Any:
        """The same for an ``async def``, which gets a tensor unless it is annotated otherwise."""
        if self.on_calls is not None:
            self.on_calls(1)
        try:
            at: Any = point.cpu().numpy().copy() if self._numpy else point.clone()
            return self._read(await self._call(at))
        except self.failures as error:
            return self._failed(error)

    def _called(self, x: Tensor) -> Any:
        """Call the user's function with a tensor or an array.

        Without an annotation, the function gets the type that its code names (numpy or torch), or
        else the caller's preference, and the other type if that fails.
        """
        first = bool(self._guess) if self._numpy is None else self._numpy
        try:
            answer = self._called_with(x, arrays=first)
        except (TypeError, RuntimeError, AttributeError) as error:
            if self._numpy is None:
                try:
                    answer = self._called_with(x, arrays=not first)
                except Exception:
                    pass  # raise the first error, which is the function's own
                else:
                    self._numpy = not first
                    return answer
            if not first and _ABOUT_TENSORS.search(str(error)):
                error.add_note(
                    f"zotune called {self.name} with a torch tensor of {dtype_name(x.dtype)}, "
                    f"shape {tuple(x.shape)}; x.numpy() makes it an array, and "
                    "zotune.objective(fn, dim, dtype=torch.float32) another type"
                )
            raise
        self._numpy = first
        return answer

    def _called_with(self, x: Tensor, *, arrays: bool) -> Any:
        """Call with a copy, as the function may change its argument."""
        if self.on_calls is not None:
            self.on_calls(len(x) if self.batched else 1)
        if self.batched:
            return self._called_with_batch(x, arrays=arrays)
        return self._call(x.cpu().numpy().copy() if arrays else x.clone())

    def _called_with_batch(self, x: Tensor, *, arrays: bool) -> Any:
        """The same for a batch, which is not copied; the first call checks that it is unchanged."""
        before = None if self._leaves_alone else x.clone()
        answer = self._call(x.cpu().numpy() if arrays else x)
        if before is not None and not torch.equal(before, x):
            raise ObjectiveError(
                f"a batched objective must not change its argument, and {self.name} does so; "
                "work on a copy: x = x.copy(), or x.clone() of a tensor"
            )
        self._leaves_alone = True
        return answer

    def _call(self, at: Any) -> Any:
        """Call the user's function at a point or a batch, with all of its arguments."""
        return self.fn(at, *self._arguments, **self._named)

    def _checked_batch(self, result: Any, n: int) -> Tensor:
        try:
            wide = result if isinstance(result, torch.Tensor) else np.asarray(result)
            values = torch.as_tensor(wide, device=self.device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ObjectiveError(
                f"a batched objective returns a tensor of {n} numbers, "
                f"got {type(result).__name__}: {short(result)}"
            ) from error
        if values.shape != (n,) or values.is_complex():
            raise ObjectiveError(
                f"a batched objective returns one number a point, shape ({n},), "
                f"got shape {tuple(values.shape)} of {dtype_name(values.dtype)}; "
                "leave batched=False for a function of one vector, or say residuals=True"
            )
        return values.detach().to(self.value_dtype, copy=True)  # the user may reuse the buffer


def side_by_side(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of coroutines, run concurrently, even if this thread has an event loop."""

    async def gathered() -> list[T]:
        return list(await asyncio.gather(*calls))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(gathered())
    with ThreadPoolExecutor(1) as other:
        return other.submit(asyncio.run, gathered()).result()


def _wants_numpy(fn: Callable[..., Any]) -> bool | None:
    """Whether a function's first parameter is annotated as an array or as a tensor; else None."""
    try:
        first = next(iter(inspect.signature(fn).parameters.values()))
    except (TypeError, ValueError, StopIteration):
        return None
    annotation = str(first.annotation)
    if "ndarray" in annotation or "NDArray" in annotation:
        return True
    return False if "Tensor" in annotation else None


def _named_in(fn: Callable[..., Any]) -> bool | None:
    """Whether the code of a function uses numpy or scipy (True) or torch; None for neither."""
    code, names = getattr(fn, "__code__", None), getattr(fn, "__globals__", {})
    used = [names[name] for name in getattr(code, "co_names", ()) if name in names]
    used += _closed_over(fn)
    roots = {root for one in used for root in _packages_of(one)}
    if "torch" in roots:
        return False
    return True if roots & {"numpy", "scipy"} else None


def _closed_over(fn: Callable[..., Any]) -> list[Any]:
    """The values in a function's closure."""
    try:
        return [cell.cell_contents for cell in getattr(fn, "__closure__", None) or ()]
    except ValueError:  # a name that has no value yet
        return []


def _packages_of(one: Any) -> set[str]:
    """The packages that a module, a function or an object's classes come from."""
    names = [getattr(one, "__module__", None) or getattr(one, "__name__", "")]
    names += [kind.__module__ for kind in type(one).__mro__]
    return {str(name).partition(".")[0] for name in names}


def _number(result: Any) -> float:
    """A result as a float; raises an error if it is not one number."""
    if isinstance(result, numbers.Real):
        return float(result)
    if hasattr(result, "item") and getattr(result, "size", None) is not None:
        shape = tuple(result.shape)
        if shape in ((), (1,)) and isinstance(result.item(), numbers.Real):
            return float(result.item())
        if shape in ((), (1,)):
            raise ObjectiveError(
                f"an objective returns a real number, got {short(result)} of {result.dtype}; "
                "take its real part or its absolute value"
            )
        raise ObjectiveError(
            f"an objective returns one number, got shape {shape}; "
            "say residuals=True if it is a vector of residuals, whose sum of squares is minimised; "
            "else sum it up, or say zotune.objective(fn, dim, batched=True) of a function of many "
            "points"
        )
    hint = "; say residuals=True for a vector of residuals" * isinstance(result, list | tuple)
    raise ObjectiveError(
        f"an objective returns a number, got {type(result).__name__}: {short(result)}{hint}"
    )


def objective(
    fn: Callable[..., Any],
    dim: int,
    *,
    batched: bool = False,
    residuals: int | bool = False,
    L: float | None = None,
    optimum: float | None = None,
    bounds: Any = None,
    start: Any = None,
    failures: type[BaseException] | tuple[type[BaseException], ...] = (),
    metrics: Mapping[str, Callable[[Tensor], Any]] | None = None,
    cheap: bool = False,
    array: str | None = None,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str = "cpu",
    name: str | None = None,
) -> CallableObjective:
    """Wrap any callable so that zotune can minimise it.

    Args:
        fn: takes a vector (d,) and returns a number; if ``batched``, takes (n, d) and returns (n,).
            An ``async def`` is awaited for many points concurrently. It may take data after the
            vector, ``fn(x, data)``, which are then given as ``data=…`` to ``zotune.minimize`` or
            ``zotune.trainable``.
        dim: d.
        batched: whether ``fn`` takes many points at once, which is faster.
        residuals: the number m of residuals if ``fn`` returns a vector of them, (n, m) if
            ``batched``; True: the number that its first call returns. What is minimised is their
            sum of squares Σ r², without a factor ½; ``method: auto`` is then ``gauss-newton``.
        L: the Lipschitz constant of the gradient, if known; step='theory' estimates it otherwise.
        optimum: the minimum of ``fn``, if known; rows then have the gap to it.
        bounds: (low, high), numbers or vectors, or SciPy's ``Bounds``; all evaluated points are
            inside.
        start: the start of runs, (d,); default: zero.
        failures: exceptions of these types are failed evaluations, like inf.
        metrics: {name: function of one vector}; evaluated without charge at the points of the curve
            and at reports, each with a column in rows, curves, Tune's results and MLflow.
        cheap: whether ``fn`` may also be called beside the budget, to look at the loss for curves
            and reports; such calls are counted as ``monitored``. Otherwise it is never called more
            often than the budget says.
        array: "torch" or "numpy", the argument type of ``fn``; default: its annotation, or
            determined at the first call.
        dtype: dtype of the points, or its name such as "float32"; default: torch.float64.
        device: device of the points.
        name: the name in rows and records; default: the function's name.

    Returns:
        An ``Objective`` for ``zotune.minimize`` and ``zotune.trainable``.

    >>> import torch, zotune
    >>> bowl = zotune.objective(lambda x: (x**2).sum(), dim=3, L=2.0, optimum=0.0)
    >>> bowl.values(torch.ones(2, 3))
    tensor([3., 3.], dtype=torch.float64)
    """
    if metrics is not None and not isinstance(metrics, Mapping):
        raise ConfigError(
            f"metrics must be functions by their names, such as {{'distance': fn}}, got "
            f"{type(metrics).__name__}: {short(metrics)}"
        )
    if not callable(fn):
        raise ObjectiveError(f"an objective is a callable, got {type(fn).__name__}: {short(fn)}")
    if refusal(fn, 1, more=True):
        raise ConfigError(f"an objective must take one vector: {refusal(fn, 1)}")
    if optimum is not None and not _is_a_number(optimum):
        raise ConfigError(
            f"optimum must be a number, the lowest value of the function, got {short(optimum)}"
        )
    wrapped = CallableObjective(
        fn,
        positive_int("dim", dim),
        batched=batched,
        dtype=_floating(dtype),
        device=device,
        name=name or getattr(fn, "__name__", type(fn).__name__).strip("<>"),
        start=start,
        failures=(failures,) if isinstance(failures, type) else tuple(failures),
        array=None if array is None else one_of("array", array, (TORCH, NUMPY)),
        residuals=checked_residuals(residuals),
    )
    wrapped.L, wrapped.minimum = checked_smoothness(L), optimum
    wrapped.bounds, wrapped.cheap = bounds, cheap
    wrapped.metrics = {
        key: CallableObjective(
            metric,
            dim,
            batched=False,
            dtype=wrapped.dtype,
            device=device,
            name=key,
            array=array,
        )
        for key, metric in _checked_metrics(metrics or {}).items()
    }
    return wrapped


def _is_a_number(value: Any) -> bool:
    return not isinstance(value, str) and np.size(value) == 1


def _floating(dtype: torch.dtype | str | None) -> torch.dtype:
    """The dtype of points; raises an error if it is invalid."""
    found = parse_dtype(dtype) if isinstance(dtype, str) else dtype or torch.float64
    if not found.is_floating_point:
        raise ConfigError(
            "dtype must be one of torch.float16, torch.bfloat16, torch.float32 and torch.float64, "
            f"got {found}"
        )
    return found


def _checked_metrics(
    metrics: Mapping[str, Callable[[Tensor], Any]],
) -> Mapping[str, Callable[[Tensor], Any]]:
    """Metrics as objectives; checks that their names are not columns of a result row."""
    for name, metric in metrics.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ConfigError(f"a metric needs a name of letters, digits and _, got {name!r}")
        if name in ROW_KEYS:
            raise ConfigError(
                f"a metric needs a name that no column of a row has, got {name!r}; "
                f"give another, such as my_{name}"
            )
        if not callable(metric):
            raise ConfigError(
                f"metric {name!r} must be a function of x, got {type(metric).__name__}; "
                "give metrics={name: function}"
            )
    return metrics
