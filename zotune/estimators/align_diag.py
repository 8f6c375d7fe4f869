"""Projection alignment with the diagonal of the Gram matrix, as the paper does at scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotune.estimators import Moments, register

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.blocks import Block
    from zotune.directions import Directions


def moments(directions: Directions, q: int, d: int) -> Moments:
    """One-direction projections summed; orthogonal directions have no cross terms."""
    cross = 0.0 if directions.orthogonal else q * (q - 1) / d**2
    return Moments(q / d, q / d + cross)


@register(
    "align-diag",
    formula="U diag(UᵀU)⁻¹ v",
    moments=moments,
    claims={"linear", "scale-free"},
    preferred_q=8,
)
def align_diag(v: Tensor, block: Block) -> Tensor:
    """The sum of the q one-direction projections; near align where q is far below d.

    ĝ = Σ vᵢ uᵢ / ‖uᵢ‖², so cᵢ = vᵢ / ‖uᵢ‖² with uᵢ the rows of ``block``. Mean (q/d) g;
    E‖ĝ − g‖² = (1 − q/d + q(q−1)/d²) ‖g‖². Costs q directions.

    >>> import torch
    >>> from zotune.blocks import DenseBlock
    >>> align_diag(torch.tensor([[2.0, 4.0]]), DenseBlock(2 * torch.eye(3)[None, :2]))
    tensor([[0.5000, 1.0000]])

    Lin, Song, Xu: The Multi-Query Paradox in Zeroth-Order Optimization, appendix C.
    """
    return v / block.diagonal()
