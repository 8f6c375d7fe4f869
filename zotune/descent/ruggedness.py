"""Whether small and large distances tell the same story."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zotune.descent.gradients import Measured, central
from zotune.descent.oracle import Oracle, Stage, Vector

COORDINATES = 10


@dataclass
class Rough:
    """How a small and a large distance disagree, on ten coordinates."""

    bends: float
    """How much more f bends over the small one, in the median."""
    turned: float
    """The share of slopes that turn round."""

    @property
    def is_rugged(self) -> bool:
        """Whether slopes over small distances lead nowhere."""
        return (self.bends > 2 and self.turned >= 0.3) or (self.bends > 4 and self.turned > 0)

    def __str__(self) -> str:
        return f"bends {self.bends:.3g} turned {self.turned:.2g}"


def ruggedness(
    o: Oracle, x: Vector, f: float, m: Measured | None, reach: Vector, rng: np.random.Generator
) -> Stage[Rough]:
    """20 evaluations at half the reach; 20 more at a small distance unless ``m`` has them."""
    at = rng.permutation(o.dim)[:COORDINATES]
    if m is None:
        near = yield from central(o, x, f, 1e-4 * reach, at)
    else:
        near = Measured(m.g[at], m.diagonal[at])
    if not near.g.any():
        return Rough(np.inf, 1.0)
    far = yield from central(o, x, f, 0.5 * reach, at)
    with np.errstate(all="ignore"):
        ratio = np.abs(np.nan_to_num(near.diagonal)) / np.abs(far.diagonal)
    turned = float(np.mean(np.sign(near.g) != np.sign(far.g)))
    return Rough(float(np.median(np.nan_to_num(ratio))), turned)
