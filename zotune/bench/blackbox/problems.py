"""What a black-box problem is, and the suites by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from typing import Any

from zotune.bench.blackbox.counting import Function, Vector
from zotune.errors import ConfigError, one_of

TUNE, JUDGE, ALL = "tune", "judge", "all"
HALVES = (TUNE, JUDGE, ALL)
SUITES = {
    "s2mpj": ("zotune.bench.blackbox.s2mpj", range(1, 21)),
    "largescale": ("zotune.bench.blackbox.coco", (40, 160)),
    "noisy": ("zotune.bench.blackbox.coco", (20,)),
    "person": ("zotune.bench.blackbox.person", (30,)),
    "paper": ("zotune.bench.blackbox.paper", (1000,)),
    "smoke": ("zotune.bench.blackbox.smoke", (2,)),
}
"""Where each suite lives, and its dimensions unless others are given."""


@dataclass(frozen=True)
class TrueValues:
    """Noise-free values of what a solver did: they judge it, and it never sees them."""

    best: Callable[[], list[tuple[int, float]]]
    """(evaluations, value) of every improvement."""
    at: Function
    """The value at a point, uncharged."""


@dataclass(frozen=True)
class BlackboxProblem:
    """A function, a start and a budget of evaluations."""

    name: str
    start: Vector
    budget: int
    opened: Callable[[], AbstractContextManager[tuple[Function, TrueValues | None]]]
    """The function for one run, with its true values where it is noisy."""
    minimum: float | None = None
    """The known minimum; else the frozen reference is used."""
    deviation: float | None = None
    """The first standard deviation for CMA-ES, which cannot start without one, where the suite
    states it. No other solver is told it."""
    bounds: tuple[float, float] | None = None
    """Lower and upper bound of every coordinate, told to every solver that takes them."""
    difference: float | None = None
    """The finite difference that solvers are given which do not find one themselves."""
    gradient: Callable[[Vector], Vector] | None = field(default=None, repr=False)
    """Exact gradient, for reference minima only; no solver sees it."""

    @property
    def dim(self) -> int:
        """d."""
        return len(self.start)

    @property
    def half(self) -> str:
        """``tune`` or ``judge``, by the parity of a hash of the name."""
        return TUNE if hashlib.sha256(self.name.encode()).digest()[0] % 2 == 0 else JUDGE


def plain(function: Function) -> Callable[[], AbstractContextManager[tuple[Function, None]]]:
    """How a deterministic function without resources is opened."""
    return lambda: nullcontext((function, None))


def problems(
    suite: str, dims: Sequence[int] | None = None, half: str = ALL, instance: int = 1
) -> Iterator[BlackboxProblem]:
    """The problems of a suite, loaded one after the other.

    ``instance``: of COCO's functions; of CUTEst, where every fifth small problem is taken, which.
    """
    module, usual = SUITES[one_of("suite", suite, SUITES)]
    one_of("half", half, HALVES)
    loading = import_module(module)
    options = {"instance": instance} if instance != 1 else {}
    if options and "instance" not in signature(loading.load).parameters:
        raise ConfigError(f"suite {suite!r} has no instances; leave --instance out")
    for problem in loading.load(suite, dims or usual, **options):
        if half in (ALL, problem.half):
            yield problem


def require(module: str) -> Any:
    """Import a module of the ``blackbox`` extra, or say in one line how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"the black-box bench needs {module.partition('.')[0]}, which is not installed; "
            "install it with pip install 'zotune[blackbox]'"
        ) from error


def parse_dims(text: str | None) -> list[int] | None:
    """Dimensions from the command line: ``40``, ``40,160``, ``21-200`` or a mixture.

    >>> parse_dims("2-4,10")
    [2, 3, 4, 10]
    """
    if text is None:
        return None
    dims: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            dims += range(int(first), int(last or first) + 1)
    except ValueError:
        raise ConfigError(
            f"--dims must be numbers and ranges such as 21-200 or 40,160, got {text!r}"
        ) from None
    return dims
