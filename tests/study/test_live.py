"""What is shown while a study runs."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from zotune.study import Study, live
from zotune.study.live import Lines, LiveTable, duration
from zotune.study.snapshot import Snapshot, Watch, snapshot


def trial(at: int, state: str, **last: Any) -> SimpleNamespace:
    config = {"estimator": "avg", "q": at, "budget": 100, "replicates": 2}
    row = {"loss_std": 0.5, "status": "running"} | last if last else {}
    return SimpleNamespace(trial_id=str(at), status=state, config=config, last_result=row)


TRIALS = [
    trial(1, "TERMINATED", loss=3.0, spent=100, status="exhausted"),
    trial(2, "TERMINATED", loss=9.0, spent=40),
    trial(3, "RUNNING", loss=2.0, best_loss=1.5, spent=20),
    trial(4, "ERROR"),
    trial(5, "PENDING"),
]


def test_a_snapshot_counts_states_and_what_is_spent() -> None:
    now = snapshot(TRIALS, 8)
    counts = {name: count for name, count in now.states.items() if count}
    assert counts == {"running": 1, "waiting": 4, "done": 1, "stopped early": 1, "failed": 1}
    assert (now.spent, now.budget, now.total) == (320, 800, 8)
    assert now.bests == ((3.0, "avg q=1"),)
    assert now.lowest == ((1.5, "avg q=3"),)
    assert list(now.ended) == ["1", "2", "4"]


class Counted(SimpleNamespace):
    """A trial that counts how often its last row is read."""

    reads = 0

    @property
    def last_result(self) -> dict[str, Any]:
        self.reads += 1
        return self.row


def test_a_trial_that_has_ended_is_read_once_however_often_the_study_is_shown() -> None:
    counted = [
        Counted(trial_id=t.trial_id, status=t.status, config=t.config, row=t.last_result)
        for t in TRIALS
    ]
    watch = Watch()
    first = watch.look(counted, 8)
    once = [one.reads for one in counted]
    assert first == watch.look(counted, 8) == snapshot(TRIALS, 8)
    grown = [now.reads - before for now, before in zip(counted, once, strict=True)]
    assert [more > 0 for more in grown] == [False, False, True, False, True]


def test_a_snapshot_is_not_changed_by_trials_that_end_later() -> None:
    trials = [trial(1, "RUNNING", loss=3.0, spent=20), trial(2, "RUNNING", loss=2.0, spent=20)]
    watch = Watch()
    before = watch.look(trials, 2)
    trials[0] = trial(1, "TERMINATED", loss=1.0, spent=100, status="exhausted")
    after = watch.look(trials, 2)
    assert (before.states["done"], after.states["done"]) == (0, 1)
    assert (before.ended, after.ended) == ({}, {"1": "avg q=1: done, loss 1 ± 0.5"})
    assert (before.spent, after.spent, after.bests) == (40, 120, ((1.0, "avg q=1"),))


def test_a_trial_that_ends_before_it_has_reported_is_not_called_stopped_early() -> None:
    now = snapshot([trial(1, "TERMINATED")], 1)
    assert (now.states["without a result"], now.states["stopped early"]) == (1, 0)
    assert now.ended == {"1": "avg q=1: without a result"}


def test_a_study_that_has_not_begun_is_a_snapshot_too() -> None:
    now = snapshot([], 3)
    assert (now.share, now.bests, now.lowest, now.states["waiting"]) == (0.0, (), (), 3)


def test_plain_lines_say_once_what_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    lines = Lines(Console(file=out, width=60), "mine: 5 trials")
    lines.show(snapshot(TRIALS[2:], 5))
    lines.show(snapshot(TRIALS, 5))
    lines.show(snapshot(TRIALS, 5))
    assert out.getvalue().splitlines() == [
        "mine: 5 trials",
        "1/5 avg q=4: failed",
        "2/5 avg q=1: done, loss 3 ± 0.5",
        "3/5 avg q=2: stopped early, loss 9 ± 0.5",
    ]
    monkeypatch.setattr(live, "LINE_EVERY", 0.0)
    lines.show(snapshot(TRIALS, 5))
    last = out.getvalue().splitlines()[-1]
    assert re.fullmatch(r"3/5 64% spent, best final loss 3 \(avg q=1\), about \d+ s left", last), (
        last
    )


def on_problem(at: int, loss: float, folder: Path, **options: Any) -> SimpleNamespace:
    one = trial(at, "TERMINATED", loss=loss, spent=100, status="exhausted")
    one.config["problem"] = {"name": "quadratic", "dim": 9} | options
    one.path = str(folder / str(at))
    return one


def launched(folder: Path, **space: Any) -> Path:
    problem = {"name": "quadratic", "dim": 9}
    search: Any = {"algorithm": "random", "trials": 9}
    axes = {"q": {"choice": [1, 2]}} | space
    study = Study(name="mine", problem=problem, budget=100, space=axes, search=search)
    folder.mkdir()
    (folder / "study.yaml").write_text(study.to_yaml())
    return folder


@pytest.mark.parametrize("axis", [[4, 5], {"randint": [0, 9]}])
def test_a_trial_is_named_with_the_searched_options_of_its_problem(
    tmp_path: Path, axis: Any
) -> None:
    folder = launched(tmp_path / "launch", **{"problem.seed": axis})
    ended = snapshot([on_problem(1, 3.0, folder, seed=4)], 9).ended
    assert ended == {"1": "avg q=1 problem.seed=4: done, loss 3 ± 0.5"}


def test_a_trial_is_named_with_the_update_and_the_step_where_these_are_searched(
    tmp_path: Path,
) -> None:
    folder = launched(tmp_path / "launch", update=["sgd", "nesterov"], step=["auto", "theory"])
    one = on_problem(1, 3.0, folder)
    one.config |= {"update": "nesterov", "step": "auto"}
    assert snapshot([one], 9).ended == {"1": "avg q=1 nesterov step=auto: done, loss 3 ± 0.5"}


def test_a_trial_is_named_without_options_of_its_problem_that_do_not_differ(
    tmp_path: Path,
) -> None:
    folder = launched(tmp_path / "launch", **{"problem.seed": [4]})
    ended = snapshot([on_problem(1, 3.0, folder, seed=4)], 9).ended
    assert ended == {"1": "avg q=1: done, loss 3 ± 0.5"}


def test_the_best_loss_is_told_of_each_problem_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LINE_EVERY", 0.0)
    folder = launched(tmp_path / "launch", **{"problem.seed": [0, 1, 2, 3, 4]})
    pairs = [on_problem(at, 10.0 * (at % 2) + at, folder, seed=at % 2) for at in (1, 2, 3, 4)]
    now = snapshot(pairs, 4)
    assert now.bests == ((11.0, "avg q=1 problem.seed=1"), (2.0, "avg q=2 problem.seed=0"))
    many = snapshot([on_problem(at, float(at), folder, seed=at) for at in range(5)], 5)
    assert said(now) == "11 (avg q=1 problem.seed=1); 2 (avg q=2 problem.seed=0)"
    assert said(many).endswith("; 2 (avg q=2 problem.seed=2); and of 2 more problems")


def said(now: Snapshot) -> str:
    """What a line says of the best, where nothing has ended since the line before."""
    out = StringIO()
    lines = Lines(Console(file=out, width=60), "mine")
    lines.show(now)
    lines.show(now)
    return out.getvalue().splitlines()[-1].split(", best final loss ")[1].rsplit(", ", 1)[0]


def test_one_replicate_has_no_spread() -> None:
    alone = trial(1, "TERMINATED", loss=3.0, loss_std=0.0, spent=100, status="exhausted")
    alone.config["replicates"] = 1
    assert snapshot([alone], 1).ended == {"1": "avg q=1: done, loss 3"}


def test_the_live_table_has_states_spent_best_and_time() -> None:
    out = StringIO()
    table = LiveTable(Console(file=out, width=80, force_terminal=True, color_system=None), "mine")
    table.show(snapshot(TRIALS, 5))
    table.close()
    shown = out.getvalue()
    assert "1 running, 1 waiting, 1 done, 1 stopped early, 1 failed of 5" in shown
    assert "320 of 500 (64%)" in shown
    assert re.search(r"best final loss +3 \(avg q=1\)", shown)
    assert re.search(r"lowest so far +1.5 \(avg q=3\)", shown)
    assert "time left not known yet" in shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(3.4, "3 s"), (75, "1 min 15 s"), (7300, "2 h 01 min")]
)
def test_durations_are_for_persons(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_time_left_is_told_when_the_pace_means_something(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(live, "monotonic", lambda: now[0])

    def left(*seen: tuple[float, float]) -> list[float | None]:
        now[0] = 0.0
        clock, found = live._Clock(), []
        for now[0], share in seen:
            found.append(clock.left(share))
        return found

    assert left((0, 0), (10, 0.004), (20, 0.01)) == [None, None, None]
    assert left((0, 0), (10, 0.1))[-1] == pytest.approx(90)
    assert left((0, 0.5), (10, 0.52), (20, 0.6))[1:] == [None, pytest.approx(80)]
    slow = left((0, 0), (61, 0.001), (122, 0.002))
    assert slow == [None, None, pytest.approx(122 * 499)]
    assert left((0, 1.0), (10, 1.0)) == [None, None]


def test_what_is_best_so_far_never_rises_while_losses_do() -> None:
    best, lowest = [], []
    for loss, seen, state in (
        (5.0, 5.0, "RUNNING"),
        (9.0, 4.0, "RUNNING"),
        (8.0, 4.0, "TERMINATED"),
    ):
        row: dict[str, Any] = {"loss": loss, "best_loss": seen, "spent": 50}
        ended = trial(1, "TERMINATED", loss=7.0, best_loss=6.0, spent=100, status="exhausted")
        now = snapshot([ended, trial(2, state, **row, status="exhausted")], 2)
        best.append(now.bests[0])
        lowest.append(now.lowest[0])
    assert best == [(7.0, "avg q=1")] * 3
    assert lowest == [(5.0, "avg q=2"), (4.0, "avg q=2"), (4.0, "avg q=2")]


def test_before_the_first_end_a_line_says_what_was_seen_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "LINE_EVERY", 0.0)
    out = StringIO()
    lines = Lines(Console(file=out, width=60), "mine")
    lines.show(snapshot([trial(3, "RUNNING", loss=2.0, best_loss=1.5, gap=0.5, spent=20)], 2))
    assert "lowest loss so far 1.5 (avg q=3), time left" in out.getvalue()


def test_lines_and_table_show_the_gap_where_it_is_known_as_the_summary_does() -> None:
    known = trial(1, "TERMINATED", loss=-97.0, gap=3.0, spent=100, status="exhausted")
    now = snapshot([known], 1)
    assert now.ended == {"1": "avg q=1: done, gap 3 ± 0.5"}
    assert (now.bests, now.measure) == (((3.0, "avg q=1"),), "gap")


def test_a_trial_above_its_start_and_an_estimated_smoothness_are_told_with_the_best() -> None:
    row = {"loss": 244.0, "start_loss": 7.5, "L": 0.44, "L_estimated": True}
    now = snapshot([trial(1, "TERMINATED", **row, spent=100, status="exhausted")], 1)
    assert now.bests == ((244.0, "avg q=1, above its start, L estimated (0.44)"),)
    assert now.ended["1"].endswith("loss 244 ± 0.5, above its start, L estimated (0.44)")
