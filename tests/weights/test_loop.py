from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.instrument import parse_config
from tests.weights.models import TinyQwen, bits, probed
from tests.weights.toy import Toy, settings
from zotune.errors import ConfigError, ZotuneError
from zotune.estimators import ESTIMATORS
from zotune.loop import Loop
from zotune.weights.objective import WeightsObjective

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])


def loop_for(objective: WeightsObjective, **changes: Any) -> Loop:
    return Loop(parse_config(settings(**changes)), objective)


def run(objective: WeightsObjective, **changes: Any) -> tuple[Loop, list[dict[str, Any]]]:
    loop = loop_for(objective, **changes)
    state, rows = loop.init(), []
    while loop.status(state) == "running":
        state, row = loop.report(loop.advance_to_report(state))
        rows.append(row)
    return loop, rows


@pytest.mark.parametrize(
    ("estimator", "eta"), [("avg", 0.002), ("align", 0.2), ("align-diag", 0.2)]
)
def test_the_validation_loss_falls(estimator: str, eta: float) -> None:
    start = Toy().validate()["loss"]
    _, rows = run(Toy(), estimator=estimator, eta=eta, q=4, budget=800)
    assert rows[-1]["loss"] < 0.7 * start
    assert rows[-1]["status"] == "exhausted"
    assert rows[-1]["spent"] == 800


@DTYPES
@pytest.mark.parametrize("difference", ["forward", "central"])
def test_an_estimate_leaves_every_weight_bit_for_bit(dtype: torch.dtype, difference: str) -> None:
    objective = TinyQwen(dtype)
    loop = loop_for(objective, difference=difference, q=4)
    before = bits(objective)
    for step in range(3):
        batch = objective.batch(loop.iterate.batch_keys, step)
        values = probed(loop, batch, step, q=4)
        assert len(values.unique()) > 4
        assert bits(objective) == before


def test_weights_are_back_after_a_loss_that_raises() -> None:
    objective = TinyQwen()
    loop = loop_for(objective)
    before = bits(objective)
    objective.touched = lambda batch: {}  # type: ignore[method-assign]
    with pytest.raises(Exception, match="index out of range"):
        probed(loop, (torch.tensor([[9999]]), torch.tensor([0])), 0, q=3)
    assert bits(objective) == before


def test_evaluations_are_what_the_ledger_says() -> None:
    objective = TinyQwen()
    loop, rows = run(objective, q=4, budget=10)
    validated = 2 * rows[-1]["monitored"]
    assert objective.calls == rows[-1]["evaluations"] + validated
    assert (rows[-1]["queries"], rows[-1]["evaluations"]) == (10, 13)
    assert [len(a) for a in loop.iterate.log] == [4, 4, 2]


def test_rows_have_the_same_keys_and_those_of_other_problems() -> None:
    from zotune.loop import Loop
    from zotune.objectives import build_problem

    _, rows = run(TinyQwen(), report_every=10)
    other = Loop(parse_config({"budget": 4}), build_problem({"name": "quadratic", "dim": 3}))
    keys = other.report(other.init())[1].keys()
    assert all(row.keys() == rows[0].keys() for row in rows)
    assert rows[0].keys() - keys == {"accuracy", "train_loss", "unmoved"}
    assert not keys - rows[0].keys()


def test_curves_lie_on_the_grid_and_end_with_the_last_row() -> None:
    loop = loop_for(Toy(), budget=100, q=7, report_every=50)
    state, sent, points = loop.init(), -1, []
    while loop.status(state) == "running":
        state, row = loop.report(loop.advance_to_report(state))
        new = loop.curve_rows(state, after=sent)
        points += new
        sent = points[-1]["spent"]
    assert [point["spent"] for point in points] == loop.grid
    assert points[-1] == row
    assert points == loop.curve_rows(state)
    assert len({point["loss"] for point in points}) == 3
    assert all(point["train_loss"] is not None for point in points[14:])


def test_a_step_too_long_is_a_result_and_not_an_error() -> None:
    _, rows = run(Toy(), eta=1e30, estimator="align")
    assert rows[-1]["status"] == "diverged"
    assert rows[-1]["diverged"] == 1
    assert rows[-1]["loss"] >= Toy().validate()["loss"]


def test_a_state_left_behind_is_refused() -> None:
    loop = loop_for(Toy())
    state = loop.init()
    loop.step(state)
    with pytest.raises(ZotuneError, match="weights are at step 1, the state is at step 0"):
        loop.step(state)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replicates": 2}, "replicates_as: trials"),
        ({"step": "theory", "eta": None}, "give L, or step='constant' with eta"),
        ({"estimator": "align", "q": 200, "budget": 300}, "q must be at most the dimension"),
        ({"budget": 2}, "budget must cover one step"),
        ({"memory": "huge"}, "memory 'huge' is not known"),
        ({"embedding_rows": "some"}, "embedding_rows 'some' is not known"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_evaluated(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        loop_for(Toy(), **changes)


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_one_seed_gives_one_run(estimator: str) -> None:
    ends = []
    for _ in range(2):
        objective = TinyQwen()
        run(objective, estimator=estimator, budget=6)
        ends.append(bits(objective))
    assert ends[0] == ends[1] != bits(TinyQwen())


def test_the_theory_step_is_that_of_what_the_batch_sees() -> None:
    sizes = {}
    for rows in ("seen", "all"):
        objective = TinyQwen()
        loop = loop_for(objective, embedding_rows=rows, step="theory", eta=1e-6, L=1, q=3, clip=1.0)
        loop.step(loop.init())
        sizes[rows] = max(map(abs, loop.iterate.log[0]))
        d = loop.iterate.layout_of(objective.batch(loop.iterate.batch_keys, 0)).dim
        assert sizes[rows] == pytest.approx(1e-6 * 3 / (d + 3 + 1) / 3)
    assert sizes["seen"] > 1.1 * sizes["all"]
