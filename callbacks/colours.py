"""Colours of runs in MLflow, which distinguish estimator, q, step, and whatever else differs.

Each estimator has a range of hues, with one hue per q; update, step rule, eta and other settings in
which runs differ determine the lightness. Runs of other trainables have a hue by the first of these
settings and a lightness by the others. MLflow draws a run in the colour of its tag.
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
REPEATED = ("seed", "replicate", "replicates", "report_every")
"""Params that have no colour: runs that differ in them alone repeat each other."""
WHEEL = 300
"""Degrees of hue between the first and the last run of other trainables."""


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
    hue = first + (last - first) * place
    return _hex(hue, _light(shade), CHOSEN if rule else SATURATION)


def _light(shade: float | None) -> float:
    return ALONE if shade is None else LIGHTNESS[0] + (LIGHTNESS[1] - LIGHTNESS[0]) * shade


def _hex(hue: float, light: float, saturation: float = SATURATION) -> str:
    parts = colorsys.hls_to_rgb(hue / 360, light, saturation)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def shades(runs: Sequence[Run]) -> dict[str, str]:
    """The colour of each run that has one; q and other settings are ranked among those of all."""
    params = {run.info.run_id: run.data.params for run in runs}
    differ = _differing(list(params.values()))
    if not all("estimator" in told for told in params.values()):
        return _of_others(params, differ)
    sizes = {run_id: _q(told) for run_id, told in params.items()}
    keys = [*SHADED, *(k for k in differ if k not in (*SHADED, "estimator", "q", "q.rule"))]
    steps = {run_id: _values(told, keys) for run_id, told in params.items()}
    places = _ranks([size for size in sizes.values() if size is not None])
    ranks = _ranks(list(steps.values()))
    found = {
        run_id: colour(told, _rank(sizes[run_id], places), ranks.get(steps[run_id]))
        for run_id, told in params.items()
    }
    return {run_id: told for run_id, told in found.items() if told is not None}


def _differing(params: Sequence[Mapping[str, str]]) -> list[str]:
    """The params in which runs differ, without those of repetitions."""
    keys = sorted({key for one in params for key in one} - set(REPEATED))
    return [key for key in keys if len({one.get(key) for one in params}) > 1]


def _of_others(params: Mapping[str, Mapping[str, str]], differ: Sequence[str]) -> dict[str, str]:
    """Colours of runs of other trainables; none where nothing differs."""
    if not differ:
        return {}
    first = {run_id: _values(told, differ[:1]) for run_id, told in params.items()}
    others = {run_id: _values(told, differ[1:]) for run_id, told in params.items()}
    hues, lights = _ranks(list(first.values())), _ranks(list(others.values()))
    return {
        run_id: _hex(WHEEL * hues.get(first[run_id], 0.0), _light(lights.get(others[run_id])))
        for run_id in params
    }


def _q(params: Mapping[str, str]) -> tuple[float, str] | None:
    """A fixed q with an empty rule name, or 1 with the name of its rule; None if there is no q."""
    size, rule = number(params.get("q", "")), params.get("q.rule", "")
    if 1 <= size < math.inf:
        return size, ""
    return (1.0, rule or AUTO) if rule or params.get("q") == AUTO else None


def _values(params: Mapping[str, str], keys: Sequence[str]) -> tuple[Any, ...]:
    """Sort key of a run by some params: numbers by their size, then other values by their text."""
    return tuple(_value(params.get(key, "")) for key in keys)


def _value(text: str) -> tuple[bool, float, str]:
    size = number(text)
    return (False, size, "") if math.isfinite(size) else (True, 0.0, text)


def _rank(q: tuple[float, str] | None, places: Mapping[Any, float]) -> float | None:
    return None if q is None else places.get(q)


def _ranks(values: Sequence[Any]) -> dict[Any, float]:
    """The rank of each value from 0 to 1; empty if there is only one."""
    known = sorted(set(values))
    return {value: at / (len(known) - 1) for at, value in enumerate(known)} if known[1:] else {}
