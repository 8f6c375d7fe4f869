"""What a resumed launch takes from its own records: trials, results and counts."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from ray.tune.experiment import Trial

from tests.instrument import plain_study
from zotune.core.account import OVER, POINT, ROW, SAVED, Account, spent_in
from zotune.core.calls import CallCount, calls_in
from zotune.core.names import ACCOUNT_FILE, CALLS_FOLDER, CHARGED
from zotune.core.spending import Spending
from zotune.study.past import FINISHED, ids_of, past_of
from zotune.study.scheduling import scheduler
from zotune.study.tuning import Plateau, param_space, searcher

ROWS = [{"spent": at, CHARGED: 2 * at, "loss": 1.0 / at} for at in (10, 20, 30)]


def account(folder: Path) -> Account:
    return Account(folder / ACCOUNT_FILE)


def test_the_past_of_a_trial_is_what_its_account_was_told(tmp_path: Path) -> None:
    kept = account(tmp_path)
    kept.note("a", **{POINT: {"eta": 0.5}})
    for start, row in zip((0, 20, 40), ROWS, strict=True):
        kept.report("a", start, row[CHARGED], **{ROW: row})
    kept.note("a", **{SAVED: "checkpoint_000000", "position": 40})
    kept.note("b", **{OVER: FINISHED})
    with (tmp_path / ACCOUNT_FILE).open("ab") as file:
        file.write(b'{"trial": "c", "ro')
    found = past_of(tmp_path)
    assert list(found) == ["a", "b"]
    assert (found["a"].point, found["a"].rows, found["a"].over) == ({"eta": 0.5}, ROWS, "")
    assert found["a"].saved == {"checkpoint_000000": 40}
    assert found["a"].row_at(40) == ROWS[1]
    assert found["a"].row_at(50) == {CHARGED: 50}
    assert found["b"].over == FINISHED


def test_the_last_row_is_the_furthest_since_the_trial_took_over_another_one(
    tmp_path: Path,
) -> None:
    kept = account(tmp_path)
    for row in [*ROWS, ROWS[1]]:  # the last is repeated after a kill
        kept.report("a", 0, 0, **{ROW: row})
    assert past_of(tmp_path)["a"].last == ROWS[2]
    kept.move("a", 20, config={"eta": 0.1}, source="donor/checkpoint_000001")
    assert past_of(tmp_path)["a"].source == ("donor/checkpoint_000001", 20)
    kept.report("a", 20, 40, **{ROW: ROWS[1]})
    kept.note("a", **{SAVED: "checkpoint_000002", "position": 40})
    found = past_of(tmp_path)["a"]
    assert (found.last, found.position, found.source) == (ROWS[1], 40, None)
    assert found.config == {"eta": 0.1}


def test_an_end_releases_what_was_reserved(tmp_path: Path) -> None:
    kept = account(tmp_path)
    kept.set_limit(100)
    assert kept.reserve("a", 60)
    kept.report("a", 0, 10, **{OVER: FINISHED})
    assert (kept.left, account(tmp_path).left) == (90, 90)


def test_the_trials_of_a_launch_have_the_same_ids_whenever_it_is_resumed() -> None:
    assert ids_of("20261119-1") == ids_of("20261119-1") != ids_of("20261119-2")


def test_a_row_of_numpy_values_can_be_recorded(tmp_path: Path) -> None:
    account(tmp_path).report("a", 0, 5, **{ROW: {"loss": np.float64(0.5), "n": np.int64(3)}})
    assert past_of(tmp_path)["a"].rows == [{"loss": 0.5, "n": 3}]


def test_optuna_suggests_what_was_drawn_before_a_kill_and_then_something_new() -> None:
    study = plain_study(
        name="opt",
        problem={"name": "quadratic", "dim": 12},
        budget=96,
        space={"eta": {"loguniform": [0.1, 1.0]}},
        search={"algorithm": "optuna", "trials": 4},
    )

    def begun(drawn: list[dict[str, Any]]) -> Any:
        search = searcher(study, drawn=drawn)
        search.set_search_properties("loss", "min", param_space(study))
        return search

    first = begun([])
    drawn = [first.suggest(f"{at}") for at in range(3)]
    again = begun(drawn)
    for at, point in enumerate(drawn):
        again.recall(f"{at}")
        assert again._ot_trials[f"{at}"].params == point
        again.on_trial_complete(f"{at}", {"loss": float(at)})
    assert [trial.value for trial in again._ot_study.get_trials()] == [0.0, 1.0, 2.0]
    assert again.suggest("3") not in drawn


def test_schedulers_know_the_reports_before_a_resume(tmp_path: Path) -> None:
    kept = account(tmp_path)
    for row in [*ROWS, ROWS[1]]:  # the last is repeated after a kill
        kept.report("a", 0, 0, **{ROW: row})
    past = past_of(tmp_path)
    trial, other = (Trial("", trial_id=name, stub=True) for name in ("a", "b"))
    told: dict[str, Any] = {"name": "s", "problem": {"name": "quadratic", "dim": 12}}
    told |= {"budget": 100, "report_every": 10, "space": {"q": [1]}}
    median: Any = scheduler(plain_study(**told, scheduler="median"), tmp_path, past=past)
    asha: Any = scheduler(plain_study(**told, scheduler="asha"), tmp_path, past=past)
    for one in (median, asha):
        one.set_search_properties("loss", "min")
        one.on_trial_add(None, trial)
        one.on_trial_add(None, other)
    assert median._results == {trial: ROWS}
    (bracket,) = asha._brackets
    assert [(at, dict(seen)) for at, seen in bracket._rungs if seen] == [(10, {"a": -0.1})]


def test_a_plateau_that_is_told_the_same_report_twice_counts_it_once() -> None:
    plateau = Plateau(2)
    rows = [{"spent": at, "best_loss": 1.0} for at in (10, 20, 20, 30)]
    assert [plateau("a", row) for row in rows] == [False, False, False, True]


def test_what_is_repeated_is_every_call_that_was_not_charged_or_a_look(tmp_path: Path) -> None:
    kept, calls = account(tmp_path), CallCount(tmp_path / CALLS_FOLDER, "a")
    kept.report("a", 0, 20, monitored=2, evaluations=30)  # 20 directions, which took 30 calls
    kept.report("a", 10, 20, monitored=1, evaluations=15)
    calls(32 + 16)
    calls(7)  # of a step that was never reported
    spending = spent_in(tmp_path)
    assert (spending.charged, spending.evaluations, spending.monitored) == (20, 30, 2)
    assert spending.repeated == 16 + 7


def test_without_counted_calls_what_was_reported_again_is_repeated(tmp_path: Path) -> None:
    kept = account(tmp_path)
    kept.report("a", 0, 20)
    kept.report("a", 10, 20)
    assert spent_in(tmp_path).repeated == 10


def test_what_workers_make_again_is_among_the_counted_calls_or_added(tmp_path: Path) -> None:
    account(tmp_path).report("a", 0, 20, evaluations=20, again=3)
    assert spent_in(tmp_path).repeated == 3
    CallCount(tmp_path / CALLS_FOLDER, "a")(20 + 2)  # a worker died before the third
    assert spent_in(tmp_path).repeated == 2


def test_calls_are_counted_though_their_process_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from zotune.core.calls import CallCount; "
        "calls = CallCount(Path(sys.argv[1]), 'a'); calls(3); calls(); os.kill(os.getpid(), 9)"
    )
    for _ in range(2):
        dead = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
        assert dead.returncode == -signal.SIGKILL
    CallCount(tmp_path, "b")(2)
    CallCount(tmp_path, "b")(2)  # the same process, which has had another trial in between
    assert calls_in(tmp_path) == {"a": 8, "b": 4}
    assert [file.name.endswith(f"-{os.getpid()}") for file in tmp_path.glob("b/*")] == [True]


def test_a_count_that_is_sent_with_a_function_goes_on_where_it_arrives(tmp_path: Path) -> None:
    calls = CallCount(tmp_path, "a")
    calls(2)
    pickle.loads(pickle.dumps(calls))(3)
    assert calls_in(tmp_path) == {"a": 5}


def test_spending_is_read_as_it_was_recorded() -> None:
    spending = Spending(3, 100, 110, 9, 4, "evaluations", before=7, total=200)
    assert Spending.told(json.dumps(spending.as_record())) == spending
    assert Spending.told(None) is None
