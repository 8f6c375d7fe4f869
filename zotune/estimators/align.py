"""Projection alignment (ZO-Align)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotune.estimators import Moments, register

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.blocks import Block
    from zotune.directions import Directions


def moments(directions: Directions, q: int, d: int) -> Moments:
    """A projection on E r of d dimensions in the mean: E gᵀĝ = E‖ĝ‖² = (E r/d) ‖g‖².

    The rank r of the block is q, but for random signs. Of those it is the least that E r can be:
    errors and bounds are then at most what is stated, and the best step is the same.
    """
    rank = q - dependent_signs(q, d) if directions.signs else q
    return Moments(rank / d, rank / d)


def dependent_signs(q: int, d: int) -> float:
    """The most of q vectors of d random signs that depend on the others, in the mean.

    k vectors span at most 2^k vectors of signs, for k coordinates of a vector in their span
    determine it (Odlyzko). The next one is among them with a probability of 2^(k−d) at most; the
    sum over 0 < k < q is 2^(q−d) − 2^(1−d). Exact for q ≤ 2; below 1 always.

    >>> dependent_signs(2, 2), dependent_signs(6, 6), dependent_signs(10, 40) < 1e-9
    (0.5, 0.96875, True)
    """
    return float(2.0 ** (q - d) - 2.0 ** (1 - d))


@register(
    "align",
    formula="U (UᵀU)⁻¹ v",
    moments=moments,
    at_most_dim=True,
    claims={"linear", "interpolates", "projects", "scale-free"},
    exact=True,
    preferred_q=8,
)
def align(v: Tensor, block: Block) -> Tensor:
    """The projection of the gradient on the span of the directions; exact if they span everything.

    ĝ = U (UᵀU)⁻¹ v, so c solves the Gram matrix of ``block`` against v. It is the shortest vector
    with uᵢᵀĝ = vᵢ for all i. Mean (q/d) g; E‖ĝ − g‖² = (d−q)/d ‖g‖². Where directions depend on
    each other, as random signs do at times, c is the shortest one that agrees with v, and the mean
    rank stands for q. Costs q directions. Near q = d the bias of one-sided differences,
    (mu/2) uᵀHu, is magnified: prefer central differences or orthogonal directions there.

    >>> import torch
    >>> from zotune.blocks import DenseBlock
    >>> align(torch.tensor([[2.0, 4.0]]), DenseBlock(2 * torch.eye(3)[None, :2]))
    tensor([[0.5000, 1.0000]])

    Lin, Song, Xu: The Multi-Query Paradox in Zeroth-Order Optimization, section 3.3.
    """
    return block.solve(v)
