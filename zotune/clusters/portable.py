"""Check that objects can be serialised for Ray's workers."""

from __future__ import annotations

import pickle
from typing import Any

from zotune.errors import ConfigError


def require_portable(*parts: Any) -> None:
    """Raise a short error if a function cannot be serialised, before workers are started."""
    from ray import cloudpickle

    for part in parts:
        try:
            cloudpickle.dumps(part)  # type: ignore[no-untyped-call]
        except (AttributeError, TypeError, ValueError, pickle.PicklingError) as error:
            first = str(error).partition("\n")[0]
            raise ConfigError(
                f"this function cannot be sent to a worker: {first}; open files, connections and "
                "locks in the function itself, or once in each worker with zotune.factory(make)"
            ) from error
