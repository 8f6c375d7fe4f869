"""The registry of problems, and building objectives from its entries."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from zotune.errors import ConfigError, nearest
from zotune.objectives.callables import CallableObjective
from zotune.objectives.checks import short
from zotune.objectives.protocol import AnyObjective, Objective
from zotune.registry import Registry, require_name, summary_of

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Problem:
    """An entry of the registry: a named problem and the options that make an instance of it."""

    name: str
    formula: str
    summary: str
    build: Callable[..., AnyObjective]
    settings: Callable[..., Settings] | None = None
    """Checks the options of a problem over weights without building it; None: not needed."""
    weights: bool = False
    """Whether x is the weights of a module."""

    @property
    def options(self) -> dict[str, Any]:
        """Options with their defaults."""
        parameters = inspect.signature(self.settings or self.build).parameters.values()
        return {p.name: p.default for p in parameters if p.name != "device"}

    @property
    def defaults(self) -> dict[str, Any]:
        """Defaults that JSON can represent."""
        return {key: value for key, value in self.options.items() if _fits_json(value)}

    def settings_of(self, problem: Mapping[str, Any]) -> Settings | None:
        """The checked options of a problem over weights; None for other problems."""
        options = {key: value for key, value in problem.items() if key != "name"}
        return None if self.settings is None else self.settings(**options)


def _fits_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


class Settings(Protocol):
    """Options of a problem over a model's weights, checked without building it."""

    @property
    def dim(self) -> int:
        """d of the instance."""
        ...

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of the weights of one checkpoint."""
        ...

    @property
    def load_with(self) -> str:
        """The function that loads an export of the model."""
        ...

    def start_line(self) -> str:
        """How good the model is before it is trained, for people; empty if that takes long."""
        ...

    def check(self) -> None:
        """Raise the errors that building would raise, without loading large files."""

    def located(self) -> dict[str, Any]:
        """The options with absolute paths."""
        ...


PROBLEMS: Registry[Problem] = Registry(
    "problem", "zotune.objectives", lambda e: e.build, also=("zotune.language.problem",)
)


Build = TypeVar("Build", bound=Callable[..., "AnyObjective"])


def register(name: str, *, formula: str = "", weights: bool = False) -> Callable[[Build], Build]:
    """Register a class of objectives, or a function that makes one, as a problem.

    Its parameters are the options of the problem, and need defaults; ``device`` is passed if it is
    one of them. The name must be new. ``weights`` says that it builds a WeightsObjective.

    >>> import zotune
    >>> @zotune.objectives.register("shifted-bowl", formula="‖x − shift‖²")
    ... def shifted_bowl(dim: int = 20, shift: float = 1.0) -> zotune.Objective:
    ...     return zotune.objective(lambda x: ((x - shift) ** 2).sum(), dim, L=2.0, optimum=0.0)
    >>> zotune.minimize({"name": "shifted-bowl", "dim": 5}, q=5, budget=500).best_loss < 1e-6
    True
    """
    require_name("problem", name)

    def add(build: Build) -> Build:
        for option in inspect.signature(build).parameters.values():
            if option.default is option.empty:
                raise ConfigError(
                    f"option {option.name!r} of problem {name!r} needs a default, for studies "
                    "that leave it out"
                )
        PROBLEMS.add(name, Problem(name, formula, summary_of(build), build, weights=weights))
        return build

    return add


def build_problem(
    problem: str | Mapping[str, Any], *, device: torch.device | str = "cpu"
) -> Objective:
    """Build the objective of a problem, given by name or by a mapping with ``name`` and options."""
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
    """The same, including functions of a module's weights."""
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
    if isinstance(built, CallableObjective):
        built.require_arguments()
    return built


def problem_mapping(problem: str | Mapping[str, Any]) -> dict[str, Any]:
    """A problem as a mapping, with name and options checked."""
    if isinstance(problem, str):
        problem = {"name": problem}
    if not isinstance(problem, Mapping) or "name" not in problem:
        raise ConfigError(
            f"problem must be a name or a mapping with 'name', got {short(problem)}; "
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


def complete_problem(problem: Mapping[str, Any]) -> dict[str, Any]:
    """A problem's mapping with defaults filled in.

    Checkpoints hold it, so that they do not depend on later changes of defaults.
    """
    return {"name": problem["name"], **PROBLEMS[problem["name"]].defaults, **problem}
