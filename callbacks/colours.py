"""Colours of runs: estimator, q and step are told apart by the curves alone.

An estimator has a family of hues, each of its q one of them; what else differs (update, step rule,
eta) makes the colour lighter or darker. MLflow draws a run in the colour of its tag.
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
"""Degrees on the colour wheel at the smallest and at the largest q, by estimator."""
LARGEST = 3.0
"""The decimal logarithm of the q at which the hues of a run alone end."""
LIGHTNESS, ALONE = (0.70, 0.26), 0.45
"""Of the smallest and the largest step of a page, and where there is only one."""
SATURATION, CHOSEN = 0.7, 0.3
"""Of a q that is a number, and of one that a rule chooses."""
AUTO = "auto"
SHADED = ("update", "step", "eta")
"""Params that make a colour lighter or darker, the most different first."""


def number(text: str) -> float:
    """The number that a param says, NaN for what is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def colour(
    params: Mapping[str, str], place: float | None = None, shade: float | None = None
) -> str | None:
    """A family of hues an estimator, one of them a q, the darker the larger the step.

    Args:
        params: of a run; None is returned for those that are not ours.
        place: the rank of the run's q among those of its page, from 0 to 1; by its size unless
            given.
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
    """The number of queries with no rule, or 1 with the rule that chooses it; None of others."""
    size, rule = number(params.get("q", "")), params.get("q.rule", "")
    if 1 <= size < math.inf:
        return size, ""
    return (1.0, rule or AUTO) if rule or params.get("q") == AUTO else None


def _step(params: Mapping[str, str]) -> tuple[Any, ...]:
    """What orders runs by their step: the names of update and step, then eta by its size."""
    *names, eta = (params.get(key, "") for key in SHADED)
    size = number(eta)
    return (*names, size if math.isfinite(size) else -math.inf)


def _rank(q: tuple[float, str] | None, places: Mapping[Any, float]) -> float | None:
    return None if q is None else places.get(q)


def _ranks(values: Sequence[Any]) -> dict[Any, float]:
    """The rank of each value from 0 to 1; nothing where there is only one."""
    known = sorted(set(values))
    return {value: at / (len(known) - 1) for at, value in enumerate(known)} if known[1:] else {}
