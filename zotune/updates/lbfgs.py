"""Limited-memory BFGS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zotune._lazy import LazyModule
from zotune.updates import register

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = LazyModule("torch")

PAIRS = 10
"""Number of pairs (s, y) that are kept."""
S, Y = ([f"{name}{k}" for k in range(PAIRS)] for name in "sy")
CURVED = 1e-10
"""Minimum cosine of s and y; pairs below it are skipped."""


def basis(g: Tensor, slots: Mapping[str, Tensor]) -> Sequence[Tensor]:
    """g, the newest y and s, and the stored pairs."""
    kept = [slots[name].to(g.dtype) for name in (*S, *Y)]
    return [g, g - slots["gradient"], slots["step"].to(g.dtype), *kept]


def weigh(gram: Tensor, t: int) -> Tensor:
    """H g as coefficients of the basis, by the two-loop recursion."""
    unit = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    pairs = [(unit[2], unit[1])]
    pairs += [
        (unit[3 + k % PAIRS], unit[3 + PAIRS + k % PAIRS]) for k in range(t - 1, t - PAIRS, -1)
    ]
    curved = []
    for s, y in pairs:
        sy, ss, yy = float(s @ gram @ y), float(s @ gram @ s), float(y @ gram @ y)
        if sy > CURVED * (ss * yy) ** 0.5:
            curved.append((s, y, sy))
    r, factors = unit[0].clone(), []
    if not curved:
        length = float(gram[0, 0]) ** 0.5
        return r.div_(max(length, 1e-300))
    for s, y, sy in curved:
        factors.append(float(s @ gram @ r) / sy)
        r -= factors[-1] * y
    _, y, sy = curved[0]
    r *= sy / float(y @ gram @ y)
    for (s, y, sy), factor in zip(reversed(curved), reversed(factors), strict=True):
        r += s * (factor - float(y @ gram @ r) / sy)
    return r


@register(
    "lbfgs",
    formula="x ← x − η H ĝ, H from the last ten (s, y) = (x′ − x, ĝ′ − ĝ)",
    slots=("gradient", "step", *S, *Y),
    basis=basis,
    weigh=weigh,
    natural=1.0,
    needs_gradient=True,
)
def lbfgs(
    g: Tensor, slots: Mapping[str, Tensor], eta: float, t: int, weights: Tensor | None = None
) -> Tensor:
    """Quasi-Newton descent; 22 vectors are kept. Meant for full blocks, where ĝ is the gradient.

    H g is a linear combination of g and the stored pairs, with coefficients that depend only on the
    Gram matrix of these vectors (Chen, Wang, Zhou 2014), so that it works for vectors and for tiles
    of a model. Pairs without positive curvature are skipped; without any pairs, the step has length
    η. With q < d, y is the difference of two projections, which no theory covers. The natural step
    size is η = 1; there is no theory step. Use ``step: auto``. Liu, Nocedal 1989.
    """
    parts = basis(g, slots)
    if weights is None:
        weights = weigh(
            torch.stack([torch.stack([(a * b).sum() for b in parts]) for a in parts]), t
        )
    change = torch.zeros_like(g)
    for factor, part in zip(weights.unbind(-1), parts, strict=True):
        change += factor.to(g.dtype) * part
    change *= eta
    slots[S[t % PAIRS]].copy_(slots["step"])
    slots[Y[t % PAIRS]].copy_(parts[1])
    slots["gradient"].copy_(g)
    slots["step"].copy_(-change)
    return change
