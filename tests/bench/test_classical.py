"""The bench measures what it says; how fast it is, no test asserts."""

from __future__ import annotations

from itertools import groupby

import pytest
import torch

from zotune.bench import timing
from zotune.bench.classical import bare, classical, limit, steps, table
from zotune.bench.peers import installed
from zotune.bench.timing import Work, interleave, ratio
from zotune.objectives import build_problem
from zotune.objectives.quadratic import Quadratic


def test_works_take_turns_and_their_ratio_is_that_of_their_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a clock that only the works advance, and a slow moment that hits both alike."""
    clock, calls = [0.0], list[str]()

    def work(name: str, seconds: float) -> Work:
        def spend() -> None:
            calls.append(name)
            clock[0] += seconds * (10 if len(calls) > 100 else 1)

        return spend

    monkeypatch.setattr(timing, "process_time", lambda: clock[0])
    works = {"short": work("short", 1 / 1024), "long": work("long", 3 / 1024)}
    times = interleave(works, rounds=3, seconds=30 / 1024)
    turns = [name for name, _ in groupby(calls)]
    assert turns == ["short", "long"] * 4  # to see how long they take, and three rounds
    assert len(times["short"]) == len(times["long"]) == 3
    assert ratio(times, "long", "short") == pytest.approx(3)


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
    assert found[0].problem == "quadratic"
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("peer", ["evosax Open_ES", "torchzero FDM"])
def test_the_peer_evaluates_the_same_function(peer: str) -> None:
    peers = installed()
    if peer not in peers:
        pytest.skip(f"{peer} is not installed (the bench extra)")
    objective = Quadratic(dim=6)
    work = peers[peer](objective, 4, 3)
    assert work() is not None
