"""The instrument: projections, plain descent, the step of the theory, counted in directions.

Tests that are about it, rather than about what is chosen by default, take its settings from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import zotune
from zotune import config
from zotune.theory.planning import Plan

INSTRUMENT: Mapping[str, Any] = {
    "estimator": "align",
    "q": 1,
    "update": "sgd",
    "step": "theory",
    "count": "directions",
}


def minimize(objective: Any, x0: Any = None, **settings: Any) -> zotune.Run:
    """``zotune.minimize`` by the instrument, but for what is given."""
    told: dict[str, Any] = {**INSTRUMENT, **settings}
    return zotune.minimize(objective, x0, **told)


def parse_config(settings: Mapping[str, Any]) -> config.Config:
    """The configuration of the instrument, but for what is given."""
    return config.parse_config({**INSTRUMENT, **settings})


ONE_AFTER_THE_OTHER: Mapping[str, Any] = {"resources": {"cpu": 2}}
"""A trial has the whole Ray of a test: each process of a trial takes seconds of imports."""


def plain_study(**settings: Any) -> zotune.Study:
    """A study by the instrument, but for what it fixes or searches; one trial runs at a time."""
    fixed, space = settings.get("fixed", {}), settings.get("space", {})
    told = {key: INSTRUMENT[key] for key in INSTRUMENT if key not in ("count", *space)}
    usual = {"count": INSTRUMENT["count"], **ONE_AFTER_THE_OTHER}
    whole: dict[str, Any] = {**usual, **settings, "fixed": {**told, **fixed}}
    return zotune.Study(**whole)


def plan(dim: int, budget: int, **options: Any) -> Plan:
    """``zotune.plan`` for a budget of directions."""
    return zotune.plan(dim, budget, **{"count": "directions"} | options)
