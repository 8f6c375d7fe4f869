"""Projection alignment (ZO-Align)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotune.estimators import Moments, register

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.blocks import Block
    from zotune.directions import Directions


def moments(directions: Directions, q: int, d: int) -> Moments:
    """A projection on q random dimensions of d: E gᵀĝ = E‖ĝ‖² = (q/d) ‖g‖²."""
    return Moments(q / d, q / d)


@register(
    "align",
    formula="U (UᵀU)⁻¹ v",
    moments=moments,
    at_most_dim=True,
    claims={"linear", "interpolates", "projects", "scale-free"},
)
def align(v: Tensor, block: Block) -> Tensor:
    """The projection of the gradient on the span of the directions; exact at q = d.

    ĝ = U (UᵀU)⁻¹ v, so c solves the Gram matrix of ``block`` against v. It is the shortest vector
    with uᵢᵀĝ = vᵢ for all i. Mean (q/d) g; E‖ĝ − g‖² = (d−q)/d ‖g‖². Directions that depend on
    the others are left out. Costs q directions. Near q = d the bias of one-sided differences,
    (mu/2) uᵀHu, is magnified: prefer central differences or orthogonal directions there.

    >>> import torch
    >>> from zotune.blocks import DenseBlock
    >>> align(torch.tensor([[2.0, 4.0]]), DenseBlock(2 * torch.eye(3)[None, :2]))
    tensor([[0.5000, 1.0000]])

    Lin, Song, Xu: The Multi-Query Paradox in Zeroth-Order Optimization, section 3.3.
    """
    return block.solve(v)
