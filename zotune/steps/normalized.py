"""A step in units of the spread of the block's losses."""

from __future__ import annotations

from math import isnan, nan, sqrt

from zotune.steps import Line, Search, register

KEPT = 0.99
"""Decay factor of the running mean of v²."""


@register(
    "normalized",
    formula="eta / std(v);  eta / √(running mean of v²) with q = 1",
    default_eta=1e-3,
    memory={"square": nan, "steps": 0.0},
)
def normalized(line: Line) -> Search:
    """Long where losses around x are alike, short where they differ; scale-free in f and mu.

    With several directions the spread is that of this step's differences (FZOO, Dang et al. 2025,
    arXiv 2506.09034, in terms of losses: std(f)/mu = std(v)). With one direction, a running mean of
    v² is used instead, with Adam's bias correction (MEAZO, arXiv 2605.03869). For ``avg`` with one
    direction, eta is then about the size of the change of a coordinate; there is no theory step.
    """
    yield from ()
    assert line.eta is not None  # it has a default
    memory, square = line.memory, float(line.v.square().mean())
    kept = 0.0 if isnan(memory["square"]) else memory["square"]
    memory["square"] = KEPT * kept + (1 - KEPT) * square
    memory["steps"] += 1
    spread = float(line.v.std()) if line.q > 1 else 0.0
    if not spread:
        spread = sqrt(memory["square"] / (1 - KEPT ** memory["steps"]))
    return line.eta / spread if spread else None
