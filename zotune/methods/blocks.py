"""Steps along blocks of directions: the method that the other registries describe."""

from __future__ import annotations

from zotune.methods import BLOCKS, METHODS, Method

METHODS.add(
    BLOCKS,
    Method(
        BLOCKS,
        "x ← x − η U c(v, U)",
        "Steps along blocks of directions, by estimator, q, update and step; on models, too.",
        None,
    ),
)
