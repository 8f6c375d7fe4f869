"""Residuals as a person's function returns them: checked, and as rows of one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from zotune.errors import ConfigError, ObjectiveError
from zotune.objectives.checks import short

Rows = npt.NDArray[np.float64]


def checked_residuals(residuals: Any) -> int | bool:
    """The number of residuals, True if it is not known yet, or False; anything else is an error."""
    if isinstance(residuals, bool) or (isinstance(residuals, int) and residuals > 0):
        return residuals
    raise ConfigError(
        "residuals must be True, or the number of residuals that fn returns, "
        f"got {short(residuals)}"
    )


def residual_row(result: Any) -> Rows | float:
    """The residuals of one point, (m,); inf for a number that is inf or NaN."""
    row = _array(result)
    if row.ndim == 0 and not np.isfinite(row):
        return inf
    if row.ndim != 1 or not len(row):
        raise ObjectiveError(
            "with residuals=True an objective returns a vector of residuals, got "
            f"{short(result) if row.ndim == 0 else f'shape {row.shape}'}; return the vector "
            "whose sum of squares is minimised, or leave out residuals"
        )
    return row


def residual_rows(found: Any, n: int, wanted: int | bool) -> Rows:
    """Residuals of n points as a matrix (n, m); a row with a value that is not finite is inf.

    Args:
        found: a matrix, or a vector for each point, inf for a failed one.
        n: number of points.
        wanted: m, or True if it is not known yet; failed rows then have the length of the others.
    """
    rows = _stacked(found, wanted) if isinstance(found, list) else _array(found)
    if rows.ndim != 2 or len(rows) != n or (wanted is not True and rows.shape[1] != wanted):
        m = "m" if wanted is True else wanted
        raise ObjectiveError(
            f"residuals of {n} points are needed as shape ({n}, {m}), got shape {rows.shape}; "
            "every point has the same number of residuals"
        )
    failed = ~np.isfinite(rows).all(axis=1, keepdims=True)
    return np.where(failed, inf, rows)


def _stacked(found: Sequence[Any], wanted: int | bool) -> Rows:
    """Vectors of points as rows."""
    lengths = {len(row) for row in found if not isinstance(row, float)}
    lengths |= {wanted} if wanted is not True else set()
    if len(lengths) > 1:
        raise ObjectiveError(
            "an objective must return the same number of residuals at every point, got "
            f"{' and '.join(map(str, sorted(lengths)))}"
        )
    m = max(lengths, default=1)
    return np.stack([np.full(m, row) if isinstance(row, float) else row for row in found])


def _array(result: Any) -> Rows:
    """A result as an array of numbers."""
    try:
        found = result.detach().cpu().numpy() if hasattr(result, "detach") else np.asarray(result)
        if found.dtype.kind not in "fiu":
            raise TypeError
        return found.astype(np.float64)
    except (TypeError, ValueError):
        raise ObjectiveError(
            f"residuals must be real numbers, got {type(result).__name__}: {short(result)}"
        ) from None
