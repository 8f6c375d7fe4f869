"""Descent in random subspaces."""

from __future__ import annotations

import numpy as np

from zotune.methods import register
from zotune.methods.parts.oracle import Oracle
from zotune.methods.parts.subspace import Q, subspace
from zotune.methods.parts.units import in_units
from zotune.methods.start import Stage, Start


@register("subspaces", formula="x ← x − U v / L, U orthonormal, L from values on the way")
def subspaces(start: Start) -> Stage[str]:
    """Blocks of 16 orthonormal directions; for budgets of few times d."""
    return (yield from in_units(_descended, start))


def _descended(start: Start) -> Stage[str]:
    far = float(np.linalg.norm(start.reach))
    yield from subspace(Oracle(start), start.x, start.value, start.rng(), reach=far, q=Q)
    return ""
