"""The bench measures what it says; how fast it is, no test asserts."""

from __future__ import annotations

import time

import pytest
import torch

from zotune.bench.classical import as_records, bare, classical, limit, steps, table
from zotune.bench.peers import installed
from zotune.bench.timing import interleave, ratio
from zotune.objectives import build_problem
from zotune.objectives.quadratic import Quadratic


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_works_take_turns_and_their_ratio_is_that_of_their_times() -> None:
    times = interleave(
        {"short": lambda: spin(0.001), "long": lambda: spin(0.003)}, rounds=3, seconds=0.02
    )
    assert len(times["short"]) == len(times["long"]) == 3
    assert ratio(times, "long", "short") == pytest.approx(3, rel=0.3)


def test_a_new_run_begins_where_one_ends() -> None:
    objective = build_problem({"name": "quadratic", "dim": 5})
    work = steps(objective, "avg", 5)
    seen = [work().steps for _ in range(4001)]  # type: ignore[attr-defined]
    assert max(seen) == 4000
    assert seen[-1] == 1


def test_the_limit_evaluates_every_point_of_a_step() -> None:
    values = limit(build_problem({"name": "rosenbrock", "dim": 6}), q=4)()
    assert isinstance(values, torch.Tensor)
    assert values.shape == (50,)


def test_a_bare_loop_descends() -> None:
    objective = build_problem({"name": "quadratic", "dim": 6})
    work = bare(objective, q=3, eta=1e-3)
    for _ in range(200):
        x = work()
    assert isinstance(x, torch.Tensor)
    assert float(objective.values(x[:, 0]).max()) < float(objective.values(objective.start()[None]))


def test_every_case_is_measured_and_shown() -> None:
    threads = torch.get_num_threads()
    found = list(classical(dim=8, block_sizes=(1, 8), rounds=1))
    assert {(m.problem, m.estimator, m.q) for m in found} >= {
        (problem, estimator, q)
        for problem in ("quadratic", "rosenbrock")
        for estimator in ("avg", "align", "bare loop")
        for q in (1, 8)
    }
    assert all(m.ratio > 0 for m in found)
    assert table(found).row_count == len(found)
    assert as_records(found)[0]["problem"] == "quadratic"
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("peer", ["evosax Open_ES", "torchzero FDM"])
def test_the_peer_evaluates_the_same_function(peer: str) -> None:
    peers = installed()
    if peer not in peers:
        pytest.skip(f"{peer} is not installed (the bench extra)")
    objective = Quadratic(dim=6)
    work = peers[peer](objective, 4, 3)
    assert work() is not None
