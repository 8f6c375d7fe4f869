"""The merit: what is minimised where a function returns residuals instead of one number."""

from __future__ import annotations

from typing import Any


def merit(residuals: Any) -> Any:
    """Σ r² over the last axis, (…, m) → (…), of a tensor or an array; there is no factor ½.

    >>> import numpy as np
    >>> float(merit(np.array([3.0, 4.0])))
    25.0
    """
    return (residuals * residuals).sum(-1)
