"""Detect outliers by a robust rule, which outliers themselves do not influence.

The modified z-score of Iglewicz and Hoaglin (1993) is 0.6745 (x − median) / MAD, where MAD is the
median of |x − median|; beyond ±3.5 a value is an outlier. If more than half of the differences are
equal, MAD is 0, and 1.2533 times the mean of |x − median| is used instead of MAD / 0.6745.
"""

from __future__ import annotations

import numpy as np

from zotune.claims.signflip import ROUNDING, Vector

FAR = 3.5
"""The modified z-score beyond which a difference is an outlier."""


def outliers(x: Vector) -> list[int]:
    """Indices of the outliers among differences, (n,).

    >>> outliers(np.array([0.1, 0.2, 0.15, 0.12, 9.0]))
    [4]
    """
    away = np.abs(x - np.median(x))
    deviation = np.median(away) / 0.6745
    if deviation <= ROUNDING * np.abs(x).max():
        deviation = 1.2533 * away.mean()
    return np.flatnonzero(away > FAR * deviation).tolist() if deviation > 0 else []
