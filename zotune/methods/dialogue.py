"""Run a method's generator by asking for points and being told their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from zotune.errors import ConfigError
from zotune.methods import RESIDUALS, Method
from zotune.methods.parts.oracle import Spent
from zotune.methods.start import Matrix, Points, Start, Vector


class Dialogue:
    """A method at work on one function.

    Args:
        method: the entry of the registry.
        start: where it starts, and what it may spend.

    >>> from zotune.methods import METHODS
    >>> bowl = lambda x: float(x @ x)
    >>> d = Dialogue(METHODS["auto"], Start(np.ones(3), bowl(np.ones(3)), left=199))
    >>> while not d.done:
    ...     d.tell([bowl(x) for x in d.ask()])
    >>> d.best < 1e-10
    True
    """

    def __init__(self, method: Method, start: Start) -> None:
        assert method.search is not None  # blocks are not a generator of points
        self.method, self.start = method, start
        self.reason: str | None = None
        """Why the method ended by itself; empty if too little was left for it; None if it goes on,
        or has spent the whole budget."""
        self._lowest = start.x, start.value
        self._residuals = {start.x.tobytes(): start.residuals}
        """Of the points with residuals, by their bytes."""
        self._is_cut = False
        self._points: Points | None = None
        self._search = method.search(start)
        self._advance(None)

    @property
    def done(self) -> bool:
        """Whether no more points are asked for."""
        return self._points is None

    @property
    def x(self) -> Vector:
        """The answer so far: the point with the lowest value, or what the method says."""
        return self._answer[0]

    @property
    def best(self) -> float:
        """The value at ``x``; for a noisy function an estimate."""
        return self._answer[1]

    @property
    def _answer(self) -> tuple[Vector, float]:
        return self._lowest if self.start.incumbent is None else self.start.incumbent()

    @property
    def residuals(self) -> Vector | None:
        """The residuals at ``x``, if the function returns them."""
        return self._residuals.get(self.x.tobytes())

    def ask(self) -> Points:
        """Points that can be evaluated in parallel, (n, d)."""
        assert self._points is not None  # not done
        return self._points

    def tell(self, values: Any, residuals: Matrix | None = None) -> None:
        """Pass the values of the points of the last ``ask``, in order; residuals if there are."""
        told = np.asarray(values, dtype=np.float64)
        told = np.where(np.isfinite(told), told, np.inf)
        points = self.ask()
        self.start.left -= len(points)
        if residuals is not None:
            for point, row in zip(points, residuals, strict=True):
                self._residuals.setdefault(point.tobytes(), row)
        at = int(told.argmin())
        if told[at] < self._lowest[1]:
            self._lowest = points[at].copy(), float(told[at])
        if self._is_cut:
            self._search.close()
            self._points = None
        else:
            self._advance(residuals if self.method.outputs == RESIDUALS else told)

    @np.errstate(over="ignore", invalid="ignore")  # values may be infinite or close to it
    def _advance(self, values: Vector | None) -> None:
        """Run the generator to its next request; it hears of the last values, too."""
        self._points = None
        try:
            points = next(self._search) if values is None else self._search.send(values)
        except Spent:
            return
        except StopIteration as end:
            if self.start.left > 0:
                self.reason = "it has ended" if end.value is None else str(end.value)
            return
        if self.start.left > 0:
            self._points = self._checked(points)
        else:
            self._search.close()

    def _checked(self, points: Any) -> Points:
        """The points of a request, at most as many as the budget covers."""
        found = np.asarray(points, dtype=np.float64)
        if found.ndim != 2 or found.shape[1] != self.start.dim or not len(found):
            raise ConfigError(
                f"method {self.method.name!r} must yield points of shape (n, {self.start.dim}), "
                f"at least one, got shape {found.shape}; a single point x is x[None]"
            )
        if not (self.start.inside(found) == found).all():
            raise ConfigError(
                f"method {self.method.name!r} asked for a point outside the bounds (or NaN); it "
                "must yield start.inside(points), or be registered with keeps_bounds=False"
            )
        self._is_cut = len(found) > self.start.left
        return found[: self.start.left]
