"""Make the parts of a report; one that fails is named, and the others are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Making(Protocol):
    """Makes a part of a report."""

    def __call__(self, what: str, make: Callable[[], Iterable[T]]) -> list[T]:
        """The part named ``what``; empty if it could not be made."""


def plainly(what: str, make: Callable[[], Iterable[T]]) -> list[T]:
    """Make a part, and let its error pass."""
    return list(make())


class Attempts:
    """Makes parts, and remembers those that failed.

    >>> attempt = Attempts()
    >>> attempt("the sum", lambda: [1 + 1]), attempt("the ratio", lambda: [1 / 0])
    ([2], [])
    >>> attempt.failed
    ['Not made: the ratio (division by zero).']
    """

    def __init__(self) -> None:
        self.failed: list[str] = []
        """A sentence for each part that failed."""

    def __call__(self, what: str, make: Callable[[], Iterable[T]]) -> list[T]:
        """The part named ``what``; empty if it failed."""
        try:
            return list(make())
        except Exception as error:  # drawn by libraries, from anybody's values
            why = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            self.failed.append(f"Not made: {what} ({why}).")
            return []
