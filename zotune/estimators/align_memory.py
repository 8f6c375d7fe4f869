"""Projection alignment with a memory (SEGA)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotune.estimators import register

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.blocks import Block


def remember(m: Tensor, along: Tensor) -> Tensor:
    """The estimate itself."""
    return m + along


@register(
    "align-memory",
    formula="m + U (UᵀU)⁻¹ (v − Uᵀm),  m ← ĝ",
    at_most_dim=True,
    claims={"linear", "scale-free"},
    remember=remember,
    exact=True,
    preferred_q=8,
)
def align_memory(v: Tensor, block: Block) -> Tensor:
    """The last estimate, corrected along the block's directions; one vector is kept.

    ĝ = m + U (UᵀU)⁻¹ (v − Uᵀm) is the vector nearest to m with uᵢᵀĝ = vᵢ for all i. What earlier
    blocks have measured stays in the estimate until a later one contradicts it: where x moves
    slowly, ĝ tends to g with any q, while ``align`` forgets all but q of d dimensions. Costs q
    directions. Its error follows the path of x, so no step of the theory is declared: take step
    auto, or constant with eta. Hanzely, Mishchenko, Richtárik 2018 (SEGA, in its biased form).
    """
    return block.solve(v)
