"""Test whether differences over small and large distances agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zotune.methods.parts.gradients import Measured, central
from zotune.methods.parts.oracle import Indices, Oracle, Stage, Vector

BENT, VERY = 1.5, 4.0
"""f is rugged if its curvature over the small distance is larger by the first factor and many
slopes change sign; or by the second factor if few do."""
MANY = 0.3
"""The share of slopes that counts as many."""


@dataclass
class Rough:
    """How differences over a small and a large distance disagree, on a few coordinates."""

    bends: float
    """Median ratio of the curvature over the small distance to that over the large one."""
    turned: float
    """The share of slopes that change sign."""

    @property
    def is_rugged(self) -> bool:
        """Whether slopes over small distances are useless for descent."""
        least = BENT if self.turned >= MANY else VERY
        return self.turned > 0 and self.bends > least

    def __str__(self) -> str:
        return f"bends {self.bends:.3g} turned {self.turned:.2g}"


def ruggedness(
    o: Oracle, x: Vector, f: float, m: Measured, reach: Vector, at: Indices
) -> Stage[Rough]:
    """Compare the block ``m`` with two evaluations at half the reach for each coordinate."""
    if not m.g.any():
        return Rough(np.inf, 1.0)
    far = yield from central(o, x, f, 0.5 * reach, at)
    with np.errstate(all="ignore"):
        ratio = np.abs(np.nan_to_num(m.diagonal[at])) / np.abs(far.diagonal)
    turned = float(np.mean(np.sign(m.g[at]) != np.sign(far.g)))
    return Rough(float(np.median(np.nan_to_num(ratio))), turned)
