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

    ĝ = m + U (UᵀU)⁻¹ (v − Uᵀm) is the vector nearest to m with uᵢᵀĝ = vᵢ for all i. The estimate
    keeps measurements of earlier blocks until later ones replace them: if x moves slowly, ĝ
    converges to g for any q, while ``align`` uses only q of d dimensions at a time. Costs q
    directions. Its error depends on the path of x, so there is no theory step: use step auto, or
    constant with eta. Hanzely, Mishchenko, Richtárik 2018 (SEGA, in its biased form).
    """
    return block.solve(v)
