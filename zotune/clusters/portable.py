"""Whether something can be sent to another process of Ray's."""

from __future__ import annotations

import pickle
from typing import Any

from zotune.errors import ConfigError


def require_portable(*parts: Any) -> None:
    """Refuse a function that cannot be sent to a worker, in one line and before one is started."""
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
