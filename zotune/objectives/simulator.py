"""A stand-in for a slow simulator, for tests of wall time."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING

from zotune.errors import ConfigError
from zotune.objectives import Objective, objective, register
from zotune.objectives.quadratic import Quadratic

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@register("simulator", formula="½ xᵀAx + bᵀx, after a while")
def simulator(
    dim: int = 20,
    seed: int = 0,
    condition: float = 10.0,
    seconds: float = 0.02,
    device: torch.device | str = "cpu",
) -> Objective:
    """A quadratic that answers for one point at a time, after some seconds of waiting.

    Args:
        dim: d.
        seed: fixes the instance and its start point.
        condition: L / gamma.
        seconds: seconds per value, spent sleeping, without CPU time.
        device: where the points live.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 60:
        raise ConfigError(f"problem.seconds must be a number from 0 to 60, got {seconds!r}")
    inner = Quadratic(dim, seed, condition, device=device)

    def value(x: Tensor) -> float:
        sleep(seconds)
        return float(inner.values(x[None])[0])

    return objective(
        value,
        dim,
        L=inner.L,
        optimum=inner.minimum,
        cheap=True,
        start=inner.start(),
        array="torch",
        device=device,
        name="simulator",
    )
