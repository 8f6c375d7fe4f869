"""Curvature from function values, so that the theory step works where nothing is known.

Along u, uᵀHu ≈ (f(x + hu) − 2f(x) + f(x − hu)) / h². Over ‖u‖² its mean is tr H / d; along the
estimated gradient ĝ it tells what a step against ĝ meets. What a run may take for L is the larger
of the two. This is not λ_max, which a few queries cannot see: it is the curvature around the start
point in the directions in which blocks of this size move. Where the function bends more elsewhere,
give L.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.errors import ConfigError


@dataclass(frozen=True)
class Curvature:
    """Estimates for each replicate."""

    smoothness: Tensor
    """What to use for L, (replicates,)."""
    trace: Tensor
    """tr H, (replicates,)."""
    center: Tensor
    """f at the points themselves, (replicates,)."""
    bend: Tensor
    """How far f(x ± hu) is from straight in the mean, (replicates,): noise of that size hides H."""


def probes_for(q: int, budget: int) -> int:
    """Directions to probe: as many as a step has, at least 8, at most a tenth of the budget."""
    return max(1, min(max(q, 8), budget // 10))


def probing_cost(probes: int) -> tuple[int, int]:
    """Directions and evaluations that so many probes cost: each on both sides, x, and ĝ."""
    return probes + 1, 2 * probes + 3


def estimate_curvature(
    f: Callable[[Tensor], Tensor], x: Tensor, block: Block, mu: float | None = None
) -> Curvature:
    """Curvature around each row of ``x``, from 2q + 3 evaluations along the q rows of ``block``.

    The points are as far away as rounding wants it, and at least ``mu`` where that is given.
    """
    dim, h = block.dim, max(torch.finfo(x.dtype).eps ** 0.25, mu or 0.0)
    probes = block.rows(range(block.q), range(dim))
    center, plus, minus = _around(f, x, probes, h)
    bend = plus - 2 * center + minus
    rayleigh = bend / h**2 / block.diagonal()
    gradient = block.combine(block.solve(((plus - minus) / (2 * h)).to(x.dtype)))
    norm = torch.linalg.vector_norm(gradient, dim=-1, keepdim=True)
    along = gradient / norm.clamp_min(torch.finfo(x.dtype).tiny) * dim**0.5
    far, near = f(x[:, None] + h * along[:, None]), f(x[:, None] - h * along[:, None])
    rayleigh_along = ((far - 2 * center + near) / h**2 / dim)[:, 0]
    smoothness = torch.maximum(rayleigh.abs().mean(-1), rayleigh_along.abs())
    if not bool(((smoothness > 0) & smoothness.isfinite()).all()):
        raise ConfigError(
            "step 'theory' needs L, and the function shows no curvature around the start point; "
            "give L, or step='constant' with eta"
        )
    return Curvature(smoothness, dim * rayleigh.mean(-1), center[:, 0], bend.abs().mean(-1))


def _around(
    f: Callable[[Tensor], Tensor], x: Tensor, probes: Tensor, h: float
) -> tuple[Tensor, Tensor, Tensor]:
    """f at x, at x + h·probes and at x − h·probes, in one batch."""
    center = x[:, None]
    values = f(torch.cat([center, center + h * probes, center - h * probes], dim=1))
    q = probes.shape[1]
    return values[:, :1], values[:, 1 : q + 1], values[:, q + 1 :]
