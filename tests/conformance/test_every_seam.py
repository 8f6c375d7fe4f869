"""A toy entry for each of the five seams: killed and resumed, on vectors and on weights."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.conformance.resuming import WORLDS, check_killed, check_vectors, check_weights, finished
from tests.conformance.toys import TOYS, register_toys

TOY = pytest.mark.parametrize("toy", TOYS)


@pytest.fixture(autouse=True)
def toys_are_registered() -> None:
    register_toys()


@TOY
@pytest.mark.parametrize("world", WORLDS)
def test_killed_at_any_evaluation_and_resumed_it_is_the_same_run(
    toy: str, world: str, tmp_path: Path
) -> None:
    check_killed(partial(WORLDS[world], TOYS[toy]), tmp_path)


@TOY
def test_saved_and_loaded_again_it_is_the_same_run(toy: str, tmp_path: Path) -> None:
    check_vectors(tmp_path, **TOYS[toy])
    check_weights(tmp_path, **TOYS[toy])


def test_the_toy_step_rejects_and_the_toy_rule_grows() -> None:
    """Otherwise the kills above would say nothing of rejected steps and larger blocks."""
    rejecting = WORLDS["weights"](TOYS["a step that rejects"] | {"mu": 10.0})
    finished(rejecting, rejecting.init())
    assert [] in rejecting.iterate.log
    for make in WORLDS.values():
        growing = make(TOYS["a q that grows"])
        state = growing.init()
        sizes = []
        while growing.status(state) == "running":
            state = growing.step(state)
            sizes.append(state.lanes[0].q)
        assert max(sizes) > sizes[0]
