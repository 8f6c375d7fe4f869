"""Nested settings as dotted names, and as short labels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

PROBLEM = "problem."
"""Prefix of the dotted names of a problem's options."""


def flat(nested: Mapping[str, Any], separator: str = ".") -> Iterator[tuple[str, Any]]:
    """Pairs of dotted name and value.

    >>> dict(flat({"q": 10, "problem": {"name": "quadratic", "dim": 50}}))
    {'q': 10, 'problem.name': 'quadratic', 'problem.dim': 50}
    """
    for key, value in nested.items():
        if isinstance(value, Mapping) and value:
            yield from ((f"{key}{separator}{k}", v) for k, v in flat(value, separator))
        else:
            yield str(key), value


def place(config: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the point's values in it; ``problem.dim`` goes into the problem."""
    placed = dict(config)
    for key, value in point.items():
        first, _, option = key.partition(".")
        if option:
            placed[first] = {**placed.get(first, {}), option: value}
        else:
            placed[key] = value
    return placed


def setting(config: Any, key: str) -> Any:
    """A value by its dotted name (the inverse of ``place``); None if it is missing.

    A rule that was written as JSON for Ray Tune (see ``for_tune``) is a mapping again.
    """
    for part in key.split("."):
        config = config.get(part) if isinstance(config, Mapping) else None
    return json.loads(config) if isinstance(config, str) and config.startswith('{"') else config


def for_tune(value: Any) -> Any:
    """A value of a point as Ray Tune takes it; a rule, which is a mapping, as JSON.

    Tune would merge a mapping into the domain of its key, and fail.

    >>> for_tune({"rule": "growth"}), for_tune(10)
    ('{"rule": "growth"}', 10)
    """
    return json.dumps(value) if isinstance(value, Mapping) else value


def label(settings: Mapping[str, Any]) -> str:
    """Settings as a readable label; estimator and update are shown by name alone.

    >>> label({"q": 10, "estimator": "avg", "eta": 2.0, "update": "adam"})
    'avg q=10 eta=2 adam'
    """
    first = [key for key in settings if key == "estimator"]
    rest = [key for key in settings if key != "estimator"]
    return " ".join(_word(key, settings[key]) for key in first + rest)


def _word(key: str, value: Any) -> str:
    return short(value) if key in ("estimator", "update") else f"{key}={short(value)}"


def short(value: Any) -> str:
    """A value in a few characters; a rule is shown by its name."""
    if isinstance(value, Mapping) and "rule" in value:
        return str(value["rule"])
    return f"{value:.4g}" if isinstance(value, float) else str(value)
