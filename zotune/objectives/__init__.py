"""What is minimised: the protocol, any callable wrapped into it, and the problems by name."""

from __future__ import annotations

import inspect
import numbers
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np

from zotune._lazy import LazyModule
from zotune.addresses import Keys
from zotune.core.names import ROW_KEYS
from zotune.errors import ConfigError, ObjectiveError, nearest, one_of
from zotune.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from zotune.weights.objective import WeightsObjective
else:
    torch = LazyModule("torch")

AnyObjective: TypeAlias = "Objective | WeightsObjective"
"""A function of a vector, or of the weights of a module."""
DTYPES = ("float64", "float32")
TORCH, NUMPY = "torch", "numpy"
_ABOUT_TENSORS = re.compile(r"tensor|torch|dtype|scalar type", re.IGNORECASE)
"""Errors of a user's function that may come from being called with a tensor."""


class Objective:
    """A function of R^d, and what is known of it.

    A subclass gives ``values``; all else is optional. ``values`` is the loss that is looked at; a
    step evaluates ``sample``, which differs from it only where the function is stochastic.
    """

    stochastic: ClassVar[bool] = False
    """Whether a step sees the function through a mini-batch."""
    pure: ClassVar[bool] = False
    """Whether ``values`` and the like do nothing but compute. They neither keep nor change their
    points, answer in new tensors, and may be asked more often than is charged, and where points
    are not finite. They are called in torch's inference mode: no autograd inside, no tensor kept
    from one call to the next."""
    L: float | None = None
    """Lipschitz constant of the gradient."""
    gamma: float | None = None
    """Strong convexity."""
    minimum: float | None = None
    """The lowest value, f*."""
    bounds: tuple[Any, Any] | None = None
    """Lower and upper bounds of x, numbers or vectors."""
    failed = 0
    """Evaluations that have failed so far."""
    metrics: Mapping[str, Objective] = MappingProxyType({})
    """Functions of x that curves and rows show beside the loss, by name; they are not charged."""

    @property
    def draws_batches(self) -> bool:
        """Whether a step sees another function than the one before."""
        return self.stochastic

    def __init__(
        self,
        name: str,
        dim: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.name = name
        self.dim = dim
        self.dtype = dtype or torch.float64
        self.device = torch.device(device)

    @property
    def value_dtype(self) -> torch.dtype:
        """Losses are kept in float32 at least."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    def values(self, points: Tensor) -> Tensor:
        """f at each row of ``points``, (n, d) → (n,)."""
        raise NotImplementedError

    def sample(self, keys: Keys, step: int) -> Callable[[Tensor], Tensor]:
        """f as step ``step`` sees it, (replicates, n, d) → (replicates, n).

        A stochastic objective binds the step's mini-batch here, by the replicates' addresses.
        """
        return self._values_of_blocks

    def gradient(self, x: Tensor) -> Tensor | None:
        """∇f at each row of ``x``, for diagnostics only; None where it is not known."""
        return None

    def values_and_gradient(self, points: Tensor) -> tuple[Tensor, Tensor | None]:
        """f at a step's points (replicates, n, d), and ∇f at the first of each replicate.

        For steps that a curve records; a stochastic objective is asked for its full loss here. None
        where ∇f does not come with the values for nothing.
        """
        return self._values_of_blocks(points), None

    def start(self) -> Tensor:
        """Where a run begins unless told otherwise, (d,): at zero."""
        return torch.zeros(self.dim, dtype=self.dtype, device=self.device)

    def measured(self, x: Tensor) -> dict[str, Tensor]:
        """The metrics at each row of ``x``, (n,) each."""
        return {name: metric.values(x.clone()) for name, metric in self.metrics.items()}

    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must agree on to be continued with this objective."""
        return {"name": self.name, "dim": self.dim, "dtype": dtype_name(self.dtype)}

    def _values_of_blocks(self, points: Tensor) -> Tensor:
        return self.values(points.flatten(0, 1)).view(points.shape[:2])


class CallableObjective(Objective):
    """A function of the user's, of one vector or of a batch of them."""

    def __init__(
        self,
        fn: Callable[[Tensor], Any],
        dim: int,
        *,
        batched: bool,
        dtype: torch.dtype,
        device: torch.device | str,
        name: str,
        start: Any = None,
        failures: tuple[type[BaseException], ...] = (),
        array: str | None = None,
    ) -> None:
        super().__init__(name, dim, dtype=dtype, device=device)
        self.fn = fn
        self.batched = batched
        self.failures = failures
        self._numpy = _wants_numpy(fn) if array is None else array == NUMPY
        """Whether the function gets numpy arrays; None until its first call has told."""
        self._start = super().start() if start is None else self._checked_start(start)

    def start(self) -> Tensor:
        """As given, or zero."""
        return self._start

    def _checked_start(self, start: Any) -> Tensor:
        point = torch.as_tensor(start, dtype=self.dtype, device=self.device)
        if point.shape != (self.dim,):
            raise ConfigError(
                f"start must have shape ({self.dim},), one coordinate for each dimension, "
                f"got {tuple(point.shape)}"
            )
        return point

    def values(self, points: Tensor) -> Tensor:
        """Call the user's function; what it returns must be numbers, one a point."""
        if self.batched:
            return self._checked_batch(self._called(points), len(points))
        numbers = [self._value(point) for point in points]
        return torch.tensor(numbers, dtype=self.value_dtype, device=self.device)

    def _value(self, point: Tensor) -> float:
        """The number that the function returns; inf for a failed evaluation."""
        try:
            return _number(self._called(point))
        except self.failures:
            self.failed += 1
            return inf

    def _called(self, x: Tensor) -> Any:
        """What the user's function answers, called with a tensor or an array.

        A function that says nothing gets a tensor at first, and arrays if it fails with that.
        """
        if self._numpy:
            return self.fn(x.cpu().numpy())  # type: ignore[arg-type]
        try:
            answer = self.fn(x)
        except (TypeError, RuntimeError, AttributeError) as error:
            if self._numpy is None and self._works_with_numpy(x):
                return self.fn(x.cpu().numpy())  # type: ignore[arg-type]
            if _ABOUT_TENSORS.search(str(error)):
                error.add_note(
                    f"zotune called {self.name} with a torch tensor of {dtype_name(x.dtype)}, "
                    f"shape {tuple(x.shape)}; x.numpy() makes it an array, and "
                    "zotune.objective(fn, dim, dtype=torch.float32) another type"
                )
            raise
        self._numpy = False
        return answer

    def _works_with_numpy(self, x: Tensor) -> bool:
        """Whether the function, which has failed with a tensor, takes an array."""
        try:
            self.fn(x.cpu().numpy())  # type: ignore[arg-type]
        except Exception:
            return False
        self._numpy = True
        return True

    def _checked_batch(self, result: Any, n: int) -> Tensor:
        try:
            wide = result if isinstance(result, torch.Tensor) else np.asarray(result)
            values = torch.as_tensor(wide, device=self.device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ObjectiveError(
                f"a batched objective returns a tensor of {n} numbers, "
                f"got {type(result).__name__}: {_short(result)}"
            ) from error
        if values.shape != (n,) or values.is_complex():
            raise ObjectiveError(
                f"a batched objective returns one number a point, shape ({n},), "
                f"got shape {tuple(values.shape)} of {dtype_name(values.dtype)}; "
                "leave batched=False for a function of one vector"
            )
        return values.detach().to(self.value_dtype, copy=True)  # it may be a buffer of the user's


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


def _number(result: Any) -> float:
    """A result as a float, or the error that says what came instead."""
    if isinstance(result, numbers.Real):
        return float(result)
    if hasattr(result, "item") and getattr(result, "size", None) is not None:
        shape = tuple(result.shape)
        if shape in ((), (1,)) and isinstance(result.item(), numbers.Real):
            return float(result.item())
        raise ObjectiveError(
            f"an objective returns one number, got shape {shape}; "
            "sum it up, or say zotune.objective(fn, dim, batched=True) of a function of many points"
        )
    raise ObjectiveError(
        f"an objective returns a number, got {type(result).__name__}: {_short(result)}"
    )


def _short(value: Any) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."


def objective(
    fn: Callable[[Tensor], Any],
    dim: int,
    *,
    batched: bool = False,
    L: float | None = None,
    optimum: float | None = None,
    bounds: tuple[Any, Any] | None = None,
    start: Any = None,
    failures: tuple[type[BaseException], ...] = (),
    metrics: Mapping[str, Callable[[Tensor], Any]] | None = None,
    array: str | None = None,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str = "cpu",
    name: str | None = None,
) -> Objective:
    """Wrap any callable so that zotune can minimise it.

    Args:
        fn: takes a vector (d,) and returns a number; batched, takes (n, d) and returns (n,).
        dim: d.
        batched: whether ``fn`` takes many points at once, which is faster.
        L: the Lipschitz constant of the gradient, if known; step='theory' estimates it otherwise.
        optimum: the lowest value of ``fn``, if known; rows then carry the gap to it.
        bounds: (low, high), numbers or vectors; points and probes of ``update: auto`` stay inside.
        start: where runs begin, (d,); zero unless given.
        failures: exceptions of these types are failed evaluations, like inf.
        metrics: {name: function of one vector}; each is looked at where a curve or a report shows
            the run, uncharged, and has a column in rows, curves, Tune's results and MLflow.
        array: "torch" or "numpy", what ``fn`` is called with; by its annotation, or found out at
            the first call, unless given.
        dtype: of the points, torch.float64 unless given; a name such as "float32" will do.
        device: where the points live.
        name: how rows and records call it; the function's own name unless given.

    Returns:
        An ``Objective`` for ``zotune.minimize`` and ``zotune.trainable``.

    >>> import torch, zotune
    >>> bowl = zotune.objective(lambda x: (x**2).sum(), dim=3, L=2.0, optimum=0.0)
    >>> bowl.values(torch.ones(2, 3))
    tensor([3., 3.], dtype=torch.float64)
    """
    if not callable(fn):
        raise ObjectiveError(f"an objective is a callable, got {type(fn).__name__}: {_short(fn)}")
    wrapped = CallableObjective(
        fn,
        positive_int("dim", dim),
        batched=batched,
        dtype=parse_dtype(dtype) if isinstance(dtype, str) else dtype or torch.float64,
        device=device,
        name=name or getattr(fn, "__name__", type(fn).__name__).strip("<>"),
        start=start,
        failures=tuple(failures),
        array=None if array is None else one_of("array", array, (TORCH, NUMPY)),
    )
    wrapped.L, wrapped.minimum = _checked_smoothness(L), optimum
    wrapped.bounds = bounds
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


def _checked_metrics(
    metrics: Mapping[str, Callable[[Tensor], Any]],
) -> Mapping[str, Callable[[Tensor], Any]]:
    """Metrics whose names no column of a result row has already."""
    for name, metric in metrics.items():
        if not isinstance(name, str) or not name.isidentifier() or name in ROW_KEYS:
            raise ConfigError(
                f"a metric needs a name of letters, digits and _ that no column of a row has, "
                f"got {name!r}; taken are {', '.join(sorted(ROW_KEYS))}"
            )
        if not callable(metric):
            raise ConfigError(
                f"metric {name!r} must be a function of x, got {type(metric).__name__}; "
                "give metrics={name: function}"
            )
    return metrics


def _checked_smoothness(L: object) -> float | None:
    """L as a float, if it can be the Lipschitz constant of a gradient."""
    if L is None:
        return None
    if isinstance(L, bool) or not isinstance(L, numbers.Real) or not 0 < float(L) < inf:
        raise ConfigError(
            f"L must be a positive number, the Lipschitz constant of the gradient, got {L!r}; "
            "leave it out where it is not known"
        )
    return float(L)


@dataclass(frozen=True)
class Problem:
    """An entry of the registry: a named problem and the options that make an instance of it."""

    name: str
    formula: str
    summary: str
    build: Callable[..., AnyObjective]
    settings: Callable[..., Settings] | None = None
    """Makes the options of a problem over weights without building it; None: building tells all."""
    weights: bool = False
    """Whether x is the weights of a module."""

    @property
    def options(self) -> dict[str, Any]:
        """Options with their defaults."""
        parameters = inspect.signature(self.settings or self.build).parameters.values()
        return {p.name: p.default for p in parameters if p.name != "device"}

    def settings_of(self, problem: Mapping[str, Any]) -> Settings | None:
        """The options of a problem's mapping, where it is one over weights."""
        options = {key: value for key, value in problem.items() if key != "name"}
        return None if self.settings is None else self.settings(**options)


class Settings(Protocol):
    """Options of a problem over a model's weights, checked without building it."""

    @property
    def dim(self) -> int:
        """d of the instance."""
        ...

    @property
    def checkpoint_bytes(self) -> int:
        """What the weights of one checkpoint take on disk."""
        ...

    @property
    def load_with(self) -> str:
        """The function that loads an export of the model."""
        ...

    def check(self) -> None:
        """Raise what building would raise, short of loading what is large."""

    def located(self) -> dict[str, Any]:
        """The options with paths that mean the same in every process."""
        ...


PROBLEMS: Registry[Problem] = Registry(
    "problem", __name__, lambda e: e.build, also=("zotune.language.problem",)
)


Build = TypeVar("Build", bound=Callable[..., "AnyObjective"])


def register(name: str, *, formula: str = "", weights: bool = False) -> Callable[[Build], Build]:
    """Register a class of objectives, or a function that makes one, as a problem.

    Its parameters are the options of the problem, and need defaults; ``device`` is given to it if
    it takes one. The name must be new. ``weights`` says that it makes a WeightsObjective.

    >>> import zotune
    >>> @zotune.objectives.register("shifted-bowl", formula="‖x − shift‖²")
    ... def shifted_bowl(dim: int = 20, shift: float = 1.0) -> zotune.Objective:
    ...     return zotune.objective(lambda x: ((x - shift) ** 2).sum(), dim, L=2.0, optimum=0.0)
    >>> zotune.minimize({"name": "shifted-bowl", "dim": 5}, q=5, budget=500).best_loss < 1e-6
    True
    """

    def add(build: Build) -> Build:
        for option in inspect.signature(build).parameters.values():
            if option.default is option.empty:
                raise ConfigError(
                    f"option {option.name!r} of problem {name!r} needs a default, which studies "
                    "take where they say nothing"
                )
        summary = (build.__doc__ or "").strip().split("\n")[0]
        PROBLEMS.add(name, Problem(name, formula, summary, build, weights=weights))
        return build

    return add


def build_problem(
    problem: str | Mapping[str, Any], *, device: torch.device | str = "cpu"
) -> Objective:
    """The objective of a problem's name or of a mapping with ``name`` and options."""
    built = build_any_problem(problem, device=device)
    if not isinstance(built, Objective):
        raise ConfigError(
            f"problem {built.name!r} is a function of a model's weights, not of a vector; "
            "run it as a study, or with zotune.ZOTrainable"
        )
    return built


def build_any_problem(
    problem: str | Mapping[str, Any], *, device: torch.device | str = "cpu"
) -> AnyObjective:
    """The same, where a function of a module's weights will do as well."""
    options = problem_mapping(problem)
    entry = PROBLEMS[options.pop("name")]
    if "device" in inspect.signature(entry.build).parameters:
        options["device"] = device
    from zotune.weights.objective import WeightsObjective

    built = entry.build(**options)
    if not isinstance(built, Objective | WeightsObjective):
        raise ConfigError(
            f"problem {entry.name!r} must build an Objective, got {type(built).__name__}; "
            "return zotune.objective(fn, dim)"
        )
    return built


def problem_mapping(problem: str | Mapping[str, Any]) -> dict[str, Any]:
    """A problem as the mapping in which it is stored, with names and options checked."""
    if isinstance(problem, str):
        problem = {"name": problem}
    if not isinstance(problem, Mapping) or "name" not in problem:
        raise ConfigError(
            f"problem must be a name or a mapping with 'name', got {_short(problem)}; "
            f"known problems: {', '.join(PROBLEMS)}"
        )
    entry = PROBLEMS[problem["name"]]
    for option in problem:
        if option != "name" and option not in entry.options:
            raise ConfigError(
                f"problem {entry.name!r} has no option {option!r}{nearest(option, entry.options)}; "
                f"it takes {', '.join(entry.options)}"
            )
    return dict(problem)


def positive_int(what: str, value: object) -> int:
    """``value`` if it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ConfigError(f"{what} must be a whole number of at least 1, got {value!r}")
    return int(value)


def dimension_of(x0: Any) -> int:
    """How many coordinates a start has, (d,) or (replicates, d)."""
    try:
        start = torch.as_tensor(x0)
    except (TypeError, ValueError, RuntimeError):
        start = torch.empty(())
    if start.dim() not in (1, 2):
        raise ConfigError(
            f"x0 must be a vector, (d,), or one for each replicate, (replicates, d), got {x0!r}; "
            "give [0.0] for a function of one number"
        )
    return start.shape[-1]


def parse_dtype(name: str) -> torch.dtype:
    """The torch dtype of a name in a study file."""
    dtype = getattr(torch, one_of("dtype", name, DTYPES))
    assert isinstance(dtype, torch.dtype)  # for the type checker
    return dtype


def dtype_name(dtype: torch.dtype) -> str:
    """How a dtype is written in configurations and messages."""
    return str(dtype).removeprefix("torch.")
