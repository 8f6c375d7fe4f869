"""Find mu for a function that is constant over the default one, such as an accuracy.

If all differences of the first blocks are zero, the following blocks are taken over a mu ten times
as large, until most of their values differ. A given mu is kept, and a warning says what to set. The
blocks are steps like others, and charged; x stays where it is.
"""

from __future__ import annotations

import warnings
from math import ceil

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.config import Config
from zotune.core.state import FlatStart, LaneState
from zotune.iterates import Iterate
from zotune.methods import Choice

FACTOR, LARGEST = 10.0, 10.0
"""Factor between two mu, and the largest of them over the size of x."""
MOST = 0.5
"""The search ends if a larger share of a block's differences is not zero."""
BLOCKS = 3
"""Number of blocks without a difference after which a warning is given."""
TIMES = 3
"""How often sparse directions reach a coordinate, on average, before f is taken to be constant."""
LOOKED_AT = 4096
"""Coordinates of a direction that are looked at, to see how sparse it is."""


class MuSearch:
    """Follows whether differences are zero, and which mu is used.

    Args:
        config: the checked configuration.
        iterate: holds x.
    """

    def __init__(self, config: Config, iterate: Iterate) -> None:
        self.config, self.iterate, self._usual = config, iterate, iterate.mu

    def use(self, state: LaneState) -> None:
        """Let the iterate take its differences over the mu of this state."""
        mu = self._usual if state.flat is None else state.flat.mu
        if mu != self.iterate.mu:
            self.iterate.use_radius(mu)

    def adopted(self, state: LaneState) -> LaneState:
        """The state without the search of another configuration, if mu is given in this one."""
        other = state.flat is not None and self.config.mu not in (None, state.flat.mu)
        return state.but(flat=None) if other else state

    def goes_on(self, state: LaneState) -> bool:
        """Whether all differences have been zero, or most of those of the last block."""
        return state.flat is not None and state.flat.goes_on

    def seen(self, state: LaneState, block: Block, v: Tensor) -> LaneState:
        """The state after the differences of a step, which are finite."""
        begun = state.steps or state.flat is not None or bool(v.any())
        if begun and not self.goes_on(state):
            return state
        flat = state.flat or FlatStart(self.iterate.mu, 0, goes_on=True)
        mu, tried = flat.mu, flat.tried
        share, goes_on = float((v != 0).double().mean()), True
        if share > (MOST if self.config.mu is None else 0):
            goes_on = False
            if self.config.mu is None:  # the edge of a plateau; farther away more values differ
                mu = max(mu, min(FACTOR * mu, self._largest(state) / LARGEST))
        else:
            before, tried = tried, tried + block.q
            needed = _needed(block)
            if self.config.mu is None and tried >= needed and mu < self._largest(state):
                mu, tried = min(FACTOR * mu, self._largest(state)), 0
            elif before < max(needed, BLOCKS * block.q) <= tried and not share:
                warnings.warn(_advice(mu), stacklevel=2)
        return state.but(flat=FlatStart(mu, tried, goes_on))

    def said(self, state: LaneState) -> tuple[Choice, ...]:
        """What became of mu, and why; empty if the first differences were not zero."""
        if state.flat is None:
            return ()
        mu = state.flat.mu
        if self.goes_on(state) and (self.config.mu or mu >= self._largest(state)):
            return (Choice("mu", f"{mu:g}", _advice(mu)),)
        if self.config.mu:
            return ()
        return (Choice("mu", f"{mu:g}", f"all differences over {self._usual:g} were zero"),)

    def _largest(self, state: LaneState) -> float:
        """A mu beyond which the search does not go: ten times x, or a quarter of the bounds."""
        x = state.x
        size = float(x.abs().max()) if x.numel() else 1.0
        if self.config.bounds is None:
            return LARGEST * max(1.0, size)
        low, high = (torch.as_tensor(side, dtype=torch.float64) for side in self.config.bounds)
        width = float((high - low).min())
        return min(LARGEST * max(1.0, size), max(self._usual, 0.25 * width))


def _advice(mu: float) -> str:
    return (
        f"all differences over mu={mu:g} are zero, the function is constant there; give a larger "
        "mu, start elsewhere, or check that the function depends on x"
    )


def _needed(block: Block) -> int:
    """Directions that together reach most coordinates: one, unless directions are sparse."""
    row = block.rows(range(1), range(min(block.dim, LOOKED_AT)))
    share = float((row != 0).double().mean())
    if share > MOST:
        return 1
    return ceil(TIMES / share) if share else TIMES * block.dim
