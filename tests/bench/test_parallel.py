"""What ``zotune bench parallel`` measures can be run: blocks larger than the dimension, too."""

from __future__ import annotations

import pytest

from zotune.bench.parallel import configuration, free
from zotune.loop import Loop
from zotune.objectives import objective


@pytest.mark.parametrize(("q", "dim"), [(1, 20), (64, 20), (64, 10)])
def test_every_block_size_makes_steps(q: int, dim: int) -> None:
    made = objective(free, dim, name="free")
    loop = Loop(configuration(made, q, workers=0), made)
    state = loop.step(loop.init())
    assert state.ledger.queries == q
