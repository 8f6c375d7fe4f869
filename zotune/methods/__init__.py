"""Methods: how a run spends its budget.

One file per method. A method for vectors is a generator: it yields points, (n, d), is sent their
values, (n,), and goes on until it returns or the budget is spent. Your own, in a few lines::

    import numpy as np
    from zotune import methods

    @methods.register("compass", formula="x ± h eᵢ; h is halved where none is lower")
    def compass(start):
        x, f, h = start.x, start.value, 0.5 * start.reach
        while h.max() > 1e-9:
            points = start.inside(np.concatenate([x + np.diag(h), x - np.diag(h)]))
            values = yield points
            if values.min() < f:
                x, f = points[values.argmin()], values.min()
            else:
                h = h / 2
        return "the pattern is smaller than 1e-9"

That is all: it works in ``minimize(…, method="compass")``, ``Minimizer``, trials and races, with
workers, and resumes bit for bit after a kill, because a run is replayed from the values that it
was told. The generator must be a function of its start and these values alone: random numbers come
from ``start.rng()``. A value that is NaN or infinite arrives as inf. A request larger than the
budget that is left is cut to it, and is the last one. The lowest value is the answer; where values
are noisy, say ``start.answer(x, value)``.

A method that is registered with ``outputs="residuals"`` is for functions that return a vector of
residuals: it is sent these, (n, m), and ``start.residuals`` are those at the start.

``blocks`` is the one method that is not a generator of points: steps along blocks of directions, on
vectors and on a model's weights alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from inspect import isgeneratorfunction

from zotune.errors import ConfigError, one_of
from zotune.methods.external import Calls, solved
from zotune.methods.start import Choice, Matrix, Points, Stage, Start, Vector
from zotune.registry import Registry, summary_of

__all__ = ["AUTO", "BLOCKS", "METHODS", "Calls", "Choice", "Matrix", "Method", "Points", "Stage"]
__all__ += ["Start", "Vector", "register", "solved"]

VALUE, RESIDUALS = "value", "residuals"
"""What a method is sent of each point: f, or the vector of residuals."""
AUTO, BLOCKS, GAUSS_NEWTON = "auto", "blocks", "gauss-newton"
"""Names that other parts of zotune refer to: the default, steps along blocks of directions, and
what ``auto`` means for residuals."""
Search = Callable[[Start], Stage[str | None]]
"""A method for vectors. What it returns says why it ended by itself; empty: what was left of the
budget was too little for it."""


@dataclass(frozen=True)
class Method:
    """An entry of the registry: the generator and its traits."""

    name: str
    formula: str
    summary: str
    search: Search | None
    """The generator; None: steps along blocks of directions, on vectors and on weights."""
    version: int = 1
    """Of the sequence of points: recorded values cannot be replayed by another one."""
    keeps_bounds: bool = True
    """Whether all of its points are inside the bounds."""
    rejects_failures: bool = True
    """Whether it goes on after a value of inf, as after any point that is not accepted."""
    packages: tuple[str, ...] = ()
    """Packages that it needs, whose versions are part of its own."""
    least: Callable[[int], int] | None = None
    """Evaluations of its first step in d dimensions, beside the start; None: one is enough."""
    outputs: str = VALUE
    """What it is sent: values, (n,), or residuals, (n, m), with rows of inf for failures."""

    @property
    def code(self) -> object:
        """The function of the entry; the class itself for blocks, whose code is the loop."""
        return self.search or type(self)

    @property
    def replays(self) -> bool:
        """Whether its state is the values it was told.

        It then handles one replicate, on vectors; plans with its whole budget, which is reserved at
        once; cannot be moved to a point of another run; and workers are sent its points.
        """
        return self.search is not None

    def needs(self, dim: int) -> int:
        """The smallest budget that covers the start and a first step in so many dimensions."""
        return 1 + (self.least(dim) if self.least else 0)

    @property
    def stamp(self) -> str:
        """Its version and those of its packages, which must be the same to replay a run."""
        return " ".join([str(self.version), *(f"{p} {_installed(p)}" for p in self.packages)])

    def require(
        self, dim: int, budget: int, *, bounds: bool, residuals: int | bool = False
    ) -> None:
        """Raise an error if a package is missing, or if it does not suit the problem."""
        if self.outputs == RESIDUALS and not residuals:
            raise ConfigError(
                f"method {self.name!r} is for functions that return a vector of residuals; say "
                "residuals=True if this one does, or choose another method"
            )
        if (needed := self.needs(dim)) > budget:
            raise ConfigError(
                f"the first step of method {self.name!r} in {dim} dimensions needs a budget of "
                f"{needed} evaluations, got {budget}; raise it, or name another method"
            )
        if bounds and not self.keeps_bounds:
            raise ConfigError(
                f"method {self.name!r} does not keep its points inside bounds; leave out bounds, "
                "or choose another method"
            )
        for package in self.packages:
            if not _installed(package):
                raise ConfigError(
                    f"method {self.name!r} needs the package {package}, which is not installed; "
                    f"run: pip install {package}"
                )


def _installed(package: str) -> str:
    """The version of a package; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


METHODS: Registry[Method] = Registry("method", __name__, lambda entry: entry.code)


def register(
    name: str,
    *,
    formula: str,
    summary: str = "",
    version: int = 1,
    keeps_bounds: bool = True,
    rejects_failures: bool = True,
    packages: tuple[str, ...] = (),
    least: Callable[[int], int] | None = None,
    outputs: str = VALUE,
) -> Callable[[Search], Search]:
    """Register the decorated generator as a method under ``name``, which must be new.

    Args:
        name: the name that ``method=`` takes.
        formula: what it does, in a line.
        summary: default: the first line of its docstring.
        version: raise it with every change to the points that it asks for.
        keeps_bounds: False: it is refused where there are bounds.
        rejects_failures: False: it may end early where a value is inf.
        packages: distributions that it needs, by their names on the package index.
        least: evaluations of its first step as a function of d, where one is not enough; a smaller
            budget is refused.
        outputs: "residuals": it is for functions that return residuals, and is sent these, (n, m),
            in place of values; a failed point is a row of inf. The answer is the lowest Σ r².

    Raises:
        ConfigError: if the function is not a generator.
        DuplicateNameError: if the name is taken.
    """

    def add(search: Search) -> Search:
        if not isgeneratorfunction(search):
            raise ConfigError(
                f"method {name!r} must be a generator that yields points, (n, d), and is sent "
                "their values; write: values = yield points"
            )
        entry = Method(
            name,
            formula,
            summary or summary_of(search),
            search,
            version,
            keeps_bounds=keeps_bounds,
            rejects_failures=rejects_failures,
            packages=packages,
            least=least,
            outputs=one_of("outputs", outputs, (VALUE, RESIDUALS)),
        )
        METHODS.add(name, entry)
        return search

    return add
