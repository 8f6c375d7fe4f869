"""Blocks that grow by a test on the estimate's own variance."""

from __future__ import annotations

from math import ceil

from zotune.blocksizes import Last, register

FASTEST = 2.0
"""Maximum factor between the sizes of successive blocks."""


@register("norm-test", formula="the next q with Var(ĝ)/q ≤ θ² ‖ĝ‖²")
def norm_test(
    t: int, last: Last | None, *, first: float = 2, theta: float = 1.0, most: int = 100
) -> int:
    """q grows if single directions disagree about the gradient, and never shrinks.

    A block has q estimates vᵢuᵢ of the gradient. Their variance divided by q is the error of their
    mean. If it exceeds θ² ‖ĝ‖², the next block has as many directions as are needed to satisfy the
    test, at most twice as many. Byrd, Chin, Nocedal, Wu 2012; Bollapragada, Byrd, Nocedal 2018.
    """
    if last is None:
        return int(first)
    if last.q < 2:
        return 2
    square = last.v.square().double()
    total = float((square * last.block.diagonal()[0].double()).sum())
    mean = last.v.double() / last.q
    norm = float(mean @ last.block.gram()[0].double() @ mean)
    variance = max(0.0, total - last.q * norm) / (last.q - 1)
    if variance <= last.q * theta**2 * norm:
        return last.q
    wanted = variance / max(theta**2 * norm, 1e-300)
    return ceil(min(wanted, FASTEST * last.q))
