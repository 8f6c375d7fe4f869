"""Every registered block-size rule, on vectors and on weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import zotune
from tests.conformance.resuming import check_vectors, check_weights
from tests.instrument import minimize, parse_config
from zotune.blocksizes import BLOCK_SIZES, register
from zotune.errors import ConfigError
from zotune.loop import Loop

EVERY = pytest.mark.parametrize("name", sorted(BLOCK_SIZES))


def told(rule: str, **changes: Any) -> dict[str, Any]:
    return {"eta": 1e-2, "q": {"rule": rule, "most": 5}, **changes}


@EVERY
@pytest.mark.parametrize("step", [("constant", 1e-2), ("auto", None)])
def test_a_resumed_run_over_vectors_is_bit_for_bit_the_unbroken_one(
    name: str, step: tuple[str, float | None], tmp_path: Path
) -> None:
    check_vectors(tmp_path, **told(name, step=step[0], eta=step[1]))


@EVERY
def test_a_resumed_run_over_weights_is_bit_for_bit_the_unbroken_one(
    name: str, tmp_path: Path
) -> None:
    check_weights(tmp_path, **told(name, eta=1e-3))


def blocks(q: dict[str, Any], budget: int = 300) -> list[int]:
    """The sizes of a run's blocks."""
    objective = zotune.objectives.build_problem({"name": "quadratic", "dim": 50})
    settings = {"q": q, "budget": budget, "estimator": "avg", "step": "theory", "L": 100.0}
    loop = Loop(parse_config(settings), objective)
    state, found = loop.init(), []
    while loop.status(state) == "running":
        state = loop.step(state)
        found.append(state.lanes[0].q)
    return found


def test_growth_multiplies_and_stops_at_the_largest() -> None:
    found = blocks({"rule": "growth", "first": 2, "factor": 2, "most": 20})
    assert found[:6] == [2, 4, 8, 16, 20, 20]
    assert sum(found) == 300


def test_the_norm_test_grows_blocks_of_noisy_estimates_up_to_the_largest() -> None:
    found = blocks({"rule": "norm-test", "first": 2, "theta": 0.5, "most": 30})
    assert found[0] == 2
    assert found[:-1] == sorted(found[:-1])
    assert max(found) == 30


def test_the_norm_test_leaves_blocks_alone_where_directions_agree() -> None:
    found = blocks({"rule": "norm-test", "first": 2, "theta": 100, "most": 30})
    assert set(found) == {2}


def test_rows_carry_the_size_of_the_last_block() -> None:
    run = minimize(
        {"name": "quadratic", "dim": 50},
        q={"rule": "growth", "first": 1, "factor": 3, "most": 27},
        estimator="avg",
        budget=200,
    )
    sizes = [row["q"] for row in run.rows if row["q"]]
    assert sizes[0] == 1
    assert 27 in sizes


def test_a_rule_that_depends_on_values_gives_each_replicate_a_ledger_of_its_own() -> None:
    settings = {
        "q": {"rule": "norm-test", "most": 30},
        "estimator": "avg",
        "budget": 100,
        "step": "constant",
        "eta": 1e-4,
    }
    problem = {"name": "quadratic", "dim": 50}
    together = minimize(problem, **settings, replicates=2)
    alone = minimize(problem, **settings, replicate=1)
    assert torch.equal(together.x[1:], alone.x)


@pytest.mark.parametrize(
    ("q", "message"),
    [
        ({"rule": "grow"}, r"block-size rule 'grow' is not known \(did you mean 'growth'"),
        ({"rule": "growth", "fist": 2}, r"'fist' is not an option .*did you mean 'first'"),
        ({"rule": "growth", "most": -1}, "q.most must be a positive number, got -1"),
        ("many", "q must be a number from 1 on, 'auto', or a rule, got 'many'"),
        (0, "q must be a number from 1 on"),
        (True, "q must be a number from 1 on"),
        ({"rule": "growth", "most": 60}, "q must be at most the dimension"),
    ],
)
def test_a_rule_that_is_not_one_is_refused_in_one_line(q: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        minimize({"name": "quadratic", "dim": 50}, q=q, estimator="align", budget=100)


def test_a_rule_without_a_largest_block_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs an option 'most', its largest block"):
        register("endless", formula="t")(lambda t: t + 1)
