"""The same number of queries at every step."""

from __future__ import annotations

from zotune.blocksizes import register


@register("fixed", formula="q")
def fixed(t: int, *, most: int = 1) -> int:
    """What ``q: 10`` stands for."""
    return most
