"""Nested settings by joined names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def flat(nested: Mapping[str, Any], separator: str = ".") -> Iterator[tuple[str, Any]]:
    """Values by the keys that lead to them, joined.

    >>> dict(flat({"q": 10, "problem": {"name": "quadratic", "dim": 50}}))
    {'q': 10, 'problem.name': 'quadratic', 'problem.dim': 50}
    """
    for key, value in nested.items():
        if isinstance(value, Mapping) and value:
            yield from ((f"{key}{separator}{k}", v) for k, v in flat(value, separator))
        else:
            yield str(key), value
