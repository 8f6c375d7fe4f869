"""Projection alignment (ZO-Align)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotune.estimators import Moments, register

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.blocks import Block
    from zotune.directions import Directions


def moments(directions: Directions, q: int, d: int) -> Moments:
    """Moments of a projection on a random subspace of rank r: E gᵀĝ = E‖ĝ‖² = (E r/d) ‖g‖².

    The rank r is q, except for random signs, for which a lower bound of E r is used: actual errors
    and bounds are then at most the stated ones, and the best step is the same.
    """
    rank = q - dependent_signs(q, d) if directions.signs else q
    return Moments(rank / d, rank / d)


def dependent_signs(q: int, d: int) -> float:
    """An upper bound of the expected number of dependent vectors among q of d random signs.

    The span of k vectors contains at most 2^k vectors of signs, because k coordinates determine a
    vector in it (Odlyzko). So the next vector is in the span with probability at most 2^(k−d); the
    sum over 0 < k < q is 2^(q−d) − 2^(1−d). Exact for q ≤ 2; always below 1.

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
    with uᵢᵀĝ = vᵢ for all i. Mean (q/d) g; E‖ĝ − g‖² = (d−q)/d ‖g‖². If directions are linearly
    dependent, as random signs may be, c is the shortest solution, and the mean rank replaces q in
    the formulas. Costs q directions. Near q = d the bias of one-sided differences, (mu/2) uᵀHu, is
    magnified: prefer central differences or orthogonal directions there.

    >>> import torch
    >>> from zotune.blocks import DenseBlock
    >>> align(torch.tensor([[2.0, 4.0]]), DenseBlock(2 * torch.eye(3)[None, :2]))
    tensor([[0.5000, 1.0000]])

    Lin, Song, Xu: The Multi-Query Paradox in Zeroth-Order Optimization, section 3.3.
    """
    return block.solve(v)
