"""Simple averaging (ZO-Avg)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotune.estimators import Moments, register

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.blocks import Block
    from zotune.directions import Directions


def moments(directions: Directions, q: int, d: int) -> Moments:
    """E gᵀĝ = ‖g‖²; E‖ĝ‖² by how the directions depend on each other."""
    if directions.orthogonal:
        return Moments(1.0, d / q)
    spread = d + 1 if directions.random_norm else d - 1
    return Moments(1.0, (q + spread) / q)


@register("avg", formula="U v / q", moments=moments, claims={"linear"})
def avg(v: Tensor, block: Block) -> Tensor:
    """The mean of the q one-direction estimates; unbiased, and noisy like d/q.

    ĝ = (1/q) Σ vᵢ uᵢ, so cᵢ = vᵢ / q, with v the directional differences and uᵢ the rows of
    ``block``. Mean g up to O(mu); E‖ĝ − g‖² = (d+1)/q ‖g‖² for Gaussian directions, (d−1)/q for
    independent ones of norm √d, (d−q)/q for orthogonal ones. Costs q directions.

    >>> import torch
    >>> from zotune.blocks import DenseBlock
    >>> avg(torch.tensor([[2.0, 4.0]]), DenseBlock(torch.eye(3)[None, :2]))
    tensor([[1., 2.]])

    Lin, Song, Xu: The Multi-Query Paradox in Zeroth-Order Optimization, section 3.2.
    """
    return v / block.q
