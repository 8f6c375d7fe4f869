"""Keys of a Tuner's space that are not settings, which go to the user's function."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from zotune.config import misspelt, parse_config, parted
from zotune.errors import ConfigError

logger = logging.getLogger("zotune")
_WARNED: set[str] = set()
"""Keys that this process has warned of."""


def own_keys(
    config: Mapping[str, Any], *, takes_config: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a bound trainable's run, and the keys that go to its function.

    Args:
        config: the configuration of a trial, or defaults.
        takes_config: whether the function takes further keys; if not, they raise an error.
    """
    settings, own = parted(config)
    if "problem" in settings:
        raise ConfigError(
            "'problem' is not a setting of a trainable that has its objective already; leave it "
            "out, or give zotune.ZOTrainable to the Tuner for a registered problem"
        )
    if own and not takes_config:
        _refuse(next(iter(own)))
    warn_of_misspelt(own)
    return settings, own


def _refuse(key: str) -> None:
    """Raise the error for a key that is not a setting."""
    try:
        parse_config({"budget": 1, key: None})
    except ConfigError as error:
        raise ConfigError(
            f"{error}; keys that are not settings go to a function that takes them, "
            "fn(x, data, config)"
        ) from None


def warn_of_misspelt(keys: Iterable[str]) -> None:
    """Warn of keys near the name of a setting, each once in a process."""
    for key in keys:
        meant = misspelt(key)
        if meant is not None and key not in _WARNED:
            _WARNED.add(key)
            logger.warning(
                f"{key!r} is not a setting and goes to your function; did you mean {meant!r}?"
            )


def as_text(own: Mapping[str, Any]) -> str:
    """Keys and values as text that is equal in every process for equal values."""
    return json.dumps(own, sort_keys=True, default=_digest)


def _digest(value: Any) -> str:
    """The type of a value that JSON does not have, and a hash of its contents."""
    from ray import cloudpickle

    contents = hashlib.sha256(cloudpickle.dumps(value)).hexdigest()  # type: ignore[no-untyped-call]
    return f"{type(value).__qualname__} {contents[:16]}"
