"""Colours of runs in MLflow, which distinguish estimator, q and step.

Each estimator has a range of hues, with one hue per q; update, step rule and eta determine the
lightness. MLflow draws a run in the colour of its tag.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow.entities import Run

COLOUR = "mlflow.runColor"
HUES = {"avg": (55, 0), "align": (175, 255), "align-diag": (80, 150)}
OTHERS = (335, 275)
"""Hue in degrees at the smallest and at the largest q, by estimator."""
LARGEST = 3.0
"""The decimal logarithm of q at the end of the range of hues, for a run without a page."""
LIGHTNESS, ALONE = (0.70, 0.26), 0.45
"""Lightness for the smallest and the largest step of a page, and if there is only one."""
SATURATION, CHOSEN = 0.7, 0.3
"""Saturation for a fixed q, and for a block-size rule."""
AUTO = "auto"
SHADED = ("update", "step", "eta")
"""Params that determine the lightness, most important first."""


def number(text: str) -> float:
    """A param as a number; NaN if it is not one."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def colour(
    params: Mapping[str, str], place: float | None = None, shade: float | None = None
) -> str | None:
    """The colour of a run: the hue by estimator and q, darker for larger steps.

    Args:
        params: params of the run; returns None for other trainables.
        place: the rank of the run's q among those of its page, from 0 to 1; default: by its size.
        shade: the rank of the run's step among those of its page, from 0 to 1.

    >>> colour({"estimator": "align", "q": "1"}), colour({"estimator": "align", "q": "1000"})
    ('#22c3b6', '#4b22c3')
    """
    q = _q(params)
    if "estimator" not in params or q is None:
        return None
    first, last = HUES.get(params["estimator"], OTHERS)
    size, rule = q
    place = min(1.0, math.log10(size) / LARGEST) if place is None else place
    light = ALONE if shade is None else LIGHTNESS[0] + (LIGHTNESS[1] - LIGHTNESS[0]) * shade
    hue = (first + (last - first) * place) / 360
    parts = colorsys.hls_to_rgb(hue, light, CHOSEN if rule else SATURATION)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def shades(runs: Sequence[Run]) -> dict[str, str]:
    """The colour of each run that has one; q and step are ranked among those of all."""
    params = {run.info.run_id: run.data.params for run in runs}
    sizes = {run_id: _q(told) for run_id, told in params.items()}
    steps = {run_id: _step(told) for run_id, told in params.items()}
    places = _ranks([size for size in sizes.values() if size is not None])
    ranks = _ranks(list(steps.values()))
    found = {
        run_id: colour(told, _rank(sizes[run_id], places), ranks.get(steps[run_id]))
        for run_id, told in params.items()
    }
    return {run_id: told for run_id, told in found.items() if told is not None}


def _q(params: Mapping[str, str]) -> tuple[float, str] | None:
    """A fixed q with an empty rule name, or 1 with the name of its rule; None if there is no q."""
    size, rule = number(params.get("q", "")), params.get("q.rule", "")
    if 1 <= size < math.inf:
        return size, ""
    return (1.0, rule or AUTO) if rule or params.get("q") == AUTO else None


def _step(params: Mapping[str, str]) -> tuple[Any, ...]:
    """Sort key of a run's step: the names of update and step, then eta by its size."""
    *names, eta = (params.get(key, "") for key in SHADED)
    size = number(eta)
    return (*names, size if math.isfinite(size) else -math.inf)


def _rank(q: tuple[float, str] | None, places: Mapping[Any, float]) -> float | None:
    return None if q is None else places.get(q)


def _ranks(values: Sequence[Any]) -> dict[Any, float]:
    """The rank of each value from 0 to 1; empty if there is only one."""
    known = sorted(set(values))
    return {value: at / (len(known) - 1) for at, value in enumerate(known)} if known[1:] else {}
