"""Curvature from function values, so that the theory step works where nothing is known.

Along u, uᵀHu ≈ (f(x + hu) − 2f(x) + f(x − hu)) / h². Over ‖u‖² its mean is tr H / d; along the
estimated gradient ĝ it tells what a step against ĝ meets. What a run may take for L is the larger
of the two. This is not λ_max, which a few queries cannot see: it is the curvature around the start
point in the directions in which blocks of this size move. Where the function bends more elsewhere,
give L.

Two roundings stand beside the bend f(x + hu) − 2f(x) + f(x − hu): that of the values, ε|f|, and
that of the coordinates, which moves the values by ε‖g‖‖x‖. A bend that is not clearly above them
is refused. L is wanted to a few percent, so that h may be far larger than it is for v.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from zotune.blocks import Block
from zotune.errors import ConfigError
from zotune.iterates import Program, Request
from zotune.iterates.box import Box

_NEAREST = 1e-3
"""The least h without a mu. The share of fourth derivatives in a bend, h²/12, is small yet."""
_CLEARLY = 8
"""How many roundings a bend must be above; straight functions were seen to bend by up to 4.3."""


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
    slope: Tensor
    """‖g‖, the root mean square of (f(x + hu) − f(x − hu)) / 2h, (replicates,)."""


def probes_for(q: int, budget: int) -> int:
    """Directions to probe: as many as a step has, at least 8, at most a tenth of the budget."""
    return max(1, min(max(q, 8), budget // 10))


def probing_cost(probes: int) -> tuple[int, int]:
    """Directions and evaluations that so many probes cost: each on both sides, x, and ĝ."""
    return probes + 1, 2 * probes + 3


def estimate_curvature(
    ask: Callable[[Tensor], Request],
    x: Tensor,
    block: Block,
    mu: float | None = None,
    *,
    box: Box | None = None,
) -> Program[Curvature]:
    """Curvature around each row of ``x``, from 2q + 3 evaluations along the q rows of ``block``.

    The points are as far away as rounding wants it, and at least ``mu``, or 1e-3 without one.
    ``ask`` makes the request for f at points (replicates, n, d). With bounds, they lie inside,
    around a point that is a little further from the bounds than x.
    """
    root, h = block.dim**0.5, _reach(x, mu)
    scale = root / block.diagonal().sqrt()
    rows = block.rows(range(block.q), range(block.dim))
    steps = (h * scale)[..., None] * rows
    if box is not None:
        x, free = box.around(x, torch.maximum(steps.abs().amax(1), h * root))
        steps = torch.minimum(torch.maximum(steps, -free[:, None]), free[:, None])
    here = x[:, None]
    values = (yield ask(torch.cat([here, here + steps, here - steps], dim=1))).values
    center, plus, minus = values.tensor_split((1, block.q + 1), dim=1)
    bend, slope = plus - 2 * center + minus, (plus - minus) / (2 * h)
    gradient = block.combine(block.solve((slope / scale).to(x.dtype)))
    along = h * root * _unit(gradient)
    if box is not None:
        along = torch.minimum(torch.maximum(along, -free), free)
    far = (yield ask((x + along)[:, None])).values
    near = (yield ask((x - along)[:, None])).values
    largest = torch.maximum(bend.abs().mean(-1), (far - 2 * center + near).abs()[:, 0])
    steepness = _root_mean_square(slope)
    _refuse_rounding(largest, torch.cat([center, plus, minus], dim=1), steepness, x)
    square = h[:, 0] ** 2
    return Curvature(
        smoothness=largest / square / block.dim,
        trace=bend.mean(-1) / square,
        center=center[:, 0],
        bend=bend.abs().mean(-1),
        slope=steepness,
    )


def _reach(x: Tensor, mu: float | None) -> Tensor:
    """h of each replicate, (replicates, 1): ε^¼, which grows with √|x|, but not too near.

    Coordinates round by ε|x|: where h² grows alike, what they add to a bend over h² does not.
    """
    largest = x.abs().amax(-1, keepdim=True).clamp_min(1)
    h: Tensor = torch.finfo(x.dtype).eps ** 0.25 * largest.sqrt()
    return h.clamp_min(_NEAREST if mu is None else mu)


def _rounding(values: Tensor, slope: Tensor, x: Tensor) -> Tensor:
    """What rounding may make of the values around each row of ``x``: ε (|f| + ‖g‖‖x‖).

    Values that all are float32 numbers were computed so.
    """
    eps = torch.finfo(x.dtype).eps
    if torch.equal(values, values.to(torch.float32).to(values.dtype)):
        eps = max(eps, torch.finfo(torch.float32).eps)
    return eps * (values.abs().amax(-1) + slope * x.square().sum(-1).sqrt())


def _refuse_rounding(bend: Tensor, values: Tensor, slope: Tensor, x: Tensor) -> None:
    """Refuse a bend that is not finite, or that rounding makes of a straight function."""
    rounding = _rounding(values, slope, x)
    lost = ~((bend > _CLEARLY * rounding) & bend.isfinite())
    if bool(lost.any()):
        seen = _told(*(float(each[lost][0]) for each in (bend, values[:, 0], rounding)))
        raise ConfigError(
            "step 'theory' needs L, and the function shows no curvature around the start point"
            f"{seen}, or step='constant' with eta"
        )


def _told(bend: float, value: float, rounding: float) -> str:
    """What was seen in place of a curvature."""
    if not isfinite(bend):
        return ", where it is not finite; give L"
    seen = f": it bends by {bend:.2g}, and values near {value:.2g} round by {rounding:.2g}"
    return f"{seen if bend else ''}; give L, a larger mu"


def _unit(vectors: Tensor) -> Tensor:
    """Vectors of norm 1, but for those of norm 0."""
    scaled, _ = _scaled(vectors)
    norm: Tensor = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    return scaled / norm.clamp_min(torch.finfo(vectors.dtype).tiny)


def _root_mean_square(rows: Tensor) -> Tensor:
    """√(mean of squares) of each row."""
    scaled, exponent = _scaled(rows)
    return torch.ldexp(scaled.square().mean(-1).sqrt(), exponent[..., 0])


def _scaled(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows times the power of two that makes their largest entry about 1, so that squares exist."""
    exponent = torch.frexp(rows.abs().amax(-1, keepdim=True)).exponent
    half = exponent // 2  # 2^1074 is no number
    return torch.ldexp(torch.ldexp(rows, -half), half - exponent), exponent
