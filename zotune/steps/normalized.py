"""A step in units of the spread of the block's losses."""

from __future__ import annotations

from math import isnan, nan, sqrt

from zotune.steps import Line, Search, register

KEPT = 0.99
"""How much of the running mean of v² is kept from step to step."""


@register(
    "normalized",
    formula="eta / std(v);  eta / √(running mean of v²) with q = 1",
    default_eta=1e-3,
    memory={"square": nan, "steps": 0.0},
)
def normalized(line: Line) -> Search:
    """Long where losses around x are alike, short where they differ; scale-free in f and mu.

    With several directions the spread is that of this step's differences (FZOO, Dang et al. 2025,
    arXiv 2506.09034, which writes it with losses: std(f)/mu = std(v)). With one direction there is
    no spread, and a running mean of v² takes its place: one number, corrected for its beginning as
    Adam's (MEAZO, arXiv 2605.03869). eta is then the size of a coordinate's change, about, for
    ``avg`` with one direction; there is no step of the theory.
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
