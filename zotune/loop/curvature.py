"""Estimate curvature from function values, so that ``step: theory`` works if L is not given.

Along u, uᵀHu ≈ (f(x + hu) − 2f(x) + f(x − hu)) / h². Divided by ‖u‖², its mean is tr H / d; along
the estimated gradient ĝ it is the curvature that a step along −ĝ meets. The larger of the two is
used for L. This is not λ_max, which a few queries cannot find: it is the curvature around the start
in the directions in which blocks of this size move. If the curvature is larger elsewhere, the user
should give L.

The second difference f(x + hu) − 2f(x) + f(x − hu), called the bend here, has two rounding errors:
that of the values, ε|f|, and that of the coordinates, which changes the values by ε‖g‖‖x‖. A bend
that is not clearly above both raises an error. L is needed to a few percent only, so h may be far
larger than mu.
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
"""The smallest h if mu is not given. The relative error by fourth derivatives, h²/12, is small."""
_CLEARLY = 8
"""A bend must exceed its rounding error by this factor; linear functions reached 4.3."""


@dataclass(frozen=True)
class Curvature:
    """Curvature estimates for each replicate."""

    smoothness: Tensor
    """The estimate of L, (replicates,)."""
    trace: Tensor
    """tr H, (replicates,)."""
    around: Tensor
    """The points that were probed around, (replicates, d)."""
    center: Tensor
    """f at these points, (replicates,)."""
    bend: Tensor
    """Mean absolute second difference, (replicates,); noise of this size hides the curvature."""
    slope: Tensor
    """‖g‖, the root mean square of (f(x + hu) − f(x − hu)) / 2h, (replicates,)."""


def probes_for(q: int, budget: int) -> int:
    """Number of directions to probe: q, but at least 8, and at most a tenth of the budget."""
    return max(1, min(max(q, 8), budget // 10))


def probing_cost(probes: int) -> tuple[int, int]:
    """Directions and evaluations that ``probes`` cost: both sides of each and of ĝ, and x."""
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

    The distance h limits the rounding error and is at least ``mu``, or 1e-3 if that is None.
    ``ask`` makes the request for f at points (replicates, n, d). If there are bounds, all points
    are inside them, around a point that is slightly further from the bounds than x.
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
        around=x,
        center=center[:, 0],
        bend=bend.abs().mean(-1),
        slope=steepness,
    )


def _reach(x: Tensor, mu: float | None) -> Tensor:
    """h of each replicate, (replicates, 1): ε^¼ √|x|, with a lower bound.

    The rounding error of coordinates is ε|x|. As h² grows like |x|, its effect on bend / h² does
    not grow with |x|.
    """
    largest = x.abs().amax(-1, keepdim=True).clamp_min(1)
    h: Tensor = torch.finfo(x.dtype).eps ** 0.25 * largest.sqrt()
    return h.clamp_min(_NEAREST if mu is None else mu)


def _rounding(values: Tensor, slope: Tensor, x: Tensor) -> Tensor:
    """Rounding error of the values around each row of ``x``: ε (|f| + ‖g‖‖x‖).

    If all values are float32 numbers, f was computed in float32, whatever the dtype of x.
    """
    eps = torch.finfo(x.dtype).eps
    if torch.equal(values, values.to(torch.float32).to(values.dtype)):
        eps = max(eps, torch.finfo(torch.float32).eps)
    return eps * (values.abs().amax(-1) + slope * x.square().sum(-1).sqrt())


def _refuse_rounding(bend: Tensor, values: Tensor, slope: Tensor, x: Tensor) -> None:
    """Raise an error if a bend is not finite or may be a rounding error of a linear function."""
    rounding = _rounding(values, slope, x)
    lost = ~((bend > _CLEARLY * rounding) & bend.isfinite())
    if bool(lost.any()):
        seen = _observed(*(float(each[lost][0]) for each in (bend, values[:, 0], rounding)))
        raise ConfigError(
            "step 'theory' needs L, and the function shows no curvature around the start point"
            f"{seen}, or step='constant' with eta"
        )


def _observed(bend: float, value: float, rounding: float) -> str:
    """The part of the error message that says which values were observed."""
    if not isfinite(bend):
        return ", where it is not finite; give L"
    seen = f": it bends by {bend:.2g}, and values near {value:.2g} round by {rounding:.2g}"
    return f"{seen if bend else ''}; give L, a larger mu"


def _unit(vectors: Tensor) -> Tensor:
    """Vectors scaled to norm 1; zero vectors stay zero."""
    scaled, _ = _scaled(vectors)
    norm: Tensor = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    return scaled / norm.clamp_min(torch.finfo(vectors.dtype).tiny)


def _root_mean_square(rows: Tensor) -> Tensor:
    """√(mean of squares) of each row."""
    scaled, exponent = _scaled(rows)
    return torch.ldexp(scaled.square().mean(-1).sqrt(), exponent[..., 0])


def _scaled(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows scaled by a power of two to a largest entry of about 1, so that squares are finite."""
    exponent = torch.frexp(rows.abs().amax(-1, keepdim=True)).exponent
    half = exponent // 2  # in two steps: 2^1074 overflows
    return torch.ldexp(torch.ldexp(rows, -half), half - exponent), exponent
