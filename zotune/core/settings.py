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

    What was written as JSON for Ray Tune (see ``for_tune``) is a mapping or a list again.
    """
    for part in key.split("."):
        config = config.get(part) if isinstance(config, Mapping) else None
    return from_tune(config)


def for_tune(value: Any) -> Any:
    """A value of a point as Ray Tune takes it; a rule or a list of names as JSON.

    Tune would merge a mapping or a list into the domain of its key, and fail.

    >>> for_tune({"rule": "growth"}), for_tune(["head", "norms"]), for_tune(10)
    ('{"rule": "growth"}', '["head", "norms"]', 10)
    """
    if isinstance(value, list | tuple):
        names = value and all(isinstance(name, str) for name in value)
        return json.dumps(value) if names else value
    return json.dumps(value) if isinstance(value, Mapping) else value


def from_tune(value: Any) -> Any:
    """The inverse of ``for_tune``; text that only looks alike stays text.

    >>> from_tune('["head", "norms"]'), from_tune('["{sentence}')
    (['head', 'norms'], '["{sentence}')
    """
    if not isinstance(value, str) or not value.startswith(('{"', '["')):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


def label(settings: Mapping[str, Any]) -> str:
    """Settings as a readable label; estimator and update are shown by name alone.

    A method other than blocks is shown by its name, without the settings of blocks.

    >>> label({"q": 10, "estimator": "avg", "eta": 2.0, "update": "adam", "method": "blocks"})
    'avg q=10 eta=2 adam'
    >>> label({"q": "auto", "estimator": "auto", "scale": 2.0, "method": "lbfgsb", "eta": None})
    'lbfgsb scale=2'
    """
    unsaid = ("auto", None) if has_method(settings) else ()
    said = {k: v for k, v in settings.items() if k != "method" and v not in unsaid}
    words = [str(settings["method"])] if has_method(settings) else []
    first = [key for key in said if key == "estimator"]
    rest = [key for key in said if key != "estimator"]
    return " ".join([*words, *(_word(key, said[key]) for key in first + rest)])


def _word(key: str, value: Any) -> str:
    return short(value) if key in ("estimator", "update") else f"{key}={short(value)}"


def has_method(settings: Mapping[str, Any]) -> bool:
    """Whether settings name a method other than blocks, which has no estimator."""
    return settings.get("method") not in (None, "blocks")


def spender(settings: Mapping[str, Any]) -> Any:
    """What spends the budget, in a word: the estimator of blocks, or else the method.

    >>> spender({"method": "lbfgsb", "estimator": "auto"}), spender({"estimator": "avg"})
    ('lbfgsb', 'avg')
    """
    return settings["method"] if has_method(settings) else settings.get("estimator")


def merged(space: Any) -> dict[str, Any]:
    """A study's space as one mapping; if it is a list of spaces, with the values of all of them.

    >>> merged([{"method": ["lbfgsb"]}, {"q": [1, 10]}, {"q": [10, 50]}])
    {'method': ['lbfgsb'], 'q': [1, 10, 50]}
    """
    if not isinstance(space, list):
        return dict(space or {})
    found: dict[str, Any] = {}
    for one in space:
        for key, values in one.items():
            known = found.setdefault(key, values)
            if known is not values and isinstance(known, list) and isinstance(values, list):
                found[key] = [*known, *(value for value in values if value not in known)]
    return found


def short(value: Any) -> str:
    """A value in a few characters; a rule is shown by its name."""
    if isinstance(value, Mapping) and "rule" in value:
        return str(value["rule"])
    return f"{value:.4g}" if isinstance(value, float) else str(value)
