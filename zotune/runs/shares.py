"""Resources of a worker: CPUs and GPUs."""

from __future__ import annotations

from collections.abc import Mapping

from zotune.errors import ConfigError

SHARE = {"cpu": 1.0, "gpu": 0.0}
"""Default resources of a worker."""


def checked_share(worker: Mapping[str, float] | None) -> dict[str, float]:
    """The complete resources of a worker; raises an error if they are invalid."""
    if worker is not None and not isinstance(worker, Mapping):
        raise ConfigError(
            f"worker is what each worker gets, such as {{'cpu': 0.5}}, got {worker!r}; "
            "the number of workers is workers=…"
        )
    for key, value in (worker or {}).items():
        good = not isinstance(value, bool) and isinstance(value, int | float) and value >= 0
        if key not in SHARE or not good:
            raise ConfigError(
                f"worker must be numbers of cpu and gpu, such as {{'cpu': 0.5}}, got {worker!r}"
            )
    return SHARE | dict(worker or {})
