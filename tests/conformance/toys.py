"""A toy entry for each of the five seams, as a user would write them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, nan

import numpy as np
from torch import Tensor

from zotune import blocksizes, estimators, methods, steps, updates
from zotune.blocks import Block
from zotune.blocksizes import Last
from zotune.methods import Stage, Start
from zotune.steps import Line, Search

TOYS = {
    "an update with two slots": {"update": "two-slots"},
    "an estimator with a memory": {"estimator": "fading"},
    "a step that rejects": {"step": "halving", "eta": None},
    "a q that grows": {"q": {"rule": "by-values", "most": 5}},
    "an evaluator that answers out of order": {},
}
"""The settings that choose each toy. The evaluator is ``Shuffled``, under which all are killed."""


def register_toys() -> None:
    """Register them all; the suite forgets them after the test."""
    updates.register("two-slots", formula="x ← x − η (f + s)", slots=("fast", "slow"))(two_slots)
    estimators.register("fading", formula="m + U (v − Uᵀm) / 2q", remember=fading)(halved)
    steps.register("halving", formula="eta / 2ᵏ", memory={"eta": nan}, most_trials=4)(halving)
    blocksizes.register("by-values", formula="q + 1 where all vᵢ have one sign")(by_values)
    methods.register("compass", formula="x ± h eᵢ, h halved where none is lower")(compass)


def compass(start: Start) -> Stage[str]:
    """A pattern search of a few lines; where a round fails, it looks about at random."""
    x, f, h, rng = start.x, start.value, 0.5 * start.reach, start.rng()
    while h.max() > 1e-9:
        points = start.inside(np.concatenate([x + np.diag(h), x - np.diag(h)]))
        values = yield points
        if values.min() >= f:
            h = h / 2
            points = start.inside(x + h * rng.standard_normal((3, start.dim)))
            values = yield points
        if values.min() < f:
            x, f = points[values.argmin()], float(values.min())
    return "the pattern is smaller than 1e-9"


def two_slots(g: Tensor, slots: Mapping[str, Tensor], eta: float, t: int) -> Tensor:
    """Two running means of the estimate, and a step that depends on t."""
    fast = slots["fast"].mul_(0.5).add_(g)
    slow = slots["slow"].mul_(0.9).add_(g, alpha=0.1)
    return (fast + slow).mul_(eta / (1 + 0.1 * t))


def fading(m: Tensor, along: Tensor) -> Tensor:
    """Half of what is known now."""
    return 0.5 * (m + along)


def halved(v: Tensor, block: Block) -> Tensor:
    """A mean over half a memory."""
    return v / (2 * block.q)


def halving(line: Line) -> Search:
    """Halve the step until f descends; begin with twice the last that did."""
    eta = 4.0 if isnan(line.memory["eta"]) else line.memory["eta"]
    for _ in range(4):
        if (yield eta) < line.value:
            line.memory["eta"] = 2 * eta
            return eta
        eta /= 2
    line.memory["eta"] = eta
    return None


def by_values(t: int, last: Last | None, *, most: int = 5) -> int:
    """One more direction where the differences of the last block had one sign."""
    if last is None:
        return 1
    return last.q + 1 if bool((last.v > 0).all() | (last.v < 0).all()) else last.q
