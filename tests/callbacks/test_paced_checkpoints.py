"""When trials are saved."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.result import SHOULD_CHECKPOINT

from zotune.callbacks import PacedCheckpoints, paced_checkpoints


class Clock:
    """Time that passes when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(paced_checkpoints, "monotonic", made)
    return made


def a_trial() -> Any:
    metadata = SimpleNamespace(metric_n_steps={"loss": {"5": [1.0]}})
    return SimpleNamespace(trial_id="one", last_result={}, run_metadata=metadata)


def saved(callback: PacedCheckpoints, trial: Any, reports: range, clock: Clock, each: float) -> Any:
    """Reports after which a checkpoint was asked for, when each takes so many seconds."""
    asked = []
    for report in reports:
        clock.now += each
        row = {"training_iteration": report, SHOULD_CHECKPOINT: False}
        callback.on_trial_result(0, [trial], trial, row)
        asked += [report] if row[SHOULD_CHECKPOINT] else []
    return asked


@pytest.mark.parametrize(
    ("each", "wanted"), [(60.0, [2, 4, 6, 8]), (0.2, [3, 6]), (0.01, []), (0.25, [2, 4, 6, 8])]
)
def test_a_trial_is_saved_every_second_report_and_at_most_twice_a_second(
    clock: Clock, each: float, wanted: list[int]
) -> None:
    callback, trial = PacedCheckpoints(), a_trial()
    callback.on_trial_start(0, [trial], trial)
    assert saved(callback, trial, range(1, 9), clock, each) == wanted


def test_a_checkpoint_that_the_trial_itself_asks_for_is_left_alone(clock: Clock) -> None:
    callback, trial = PacedCheckpoints(), a_trial()
    callback.on_trial_start(0, [trial], trial)
    row = {"training_iteration": 1, SHOULD_CHECKPOINT: True}
    callback.on_trial_result(0, [trial], trial, row)
    assert row[SHOULD_CHECKPOINT] is True


def test_a_trial_whose_worker_was_killed_is_saved_again_from_where_it_begins(clock: Clock) -> None:
    callback, trial = PacedCheckpoints(), a_trial()
    callback.on_trial_start(0, [trial], trial)
    saved(callback, trial, range(1, 5), clock, 60.0)
    trial.last_result = {"training_iteration": 4}
    callback.on_trial_start(0, [trial], trial)
    assert saved(callback, trial, range(3, 8), clock, 60.0) == [3, 5, 7]


def test_nothing_of_a_trial_that_has_ended_is_kept(clock: Clock) -> None:
    callback, trial = PacedCheckpoints(), a_trial()
    callback.on_trial_start(0, [trial], trial)
    saved(callback, trial, range(1, 5), clock, 60.0)
    callback.on_trial_complete(0, [trial], trial)
    assert callback._last == {}
    assert trial.run_metadata.metric_n_steps == {}


def test_a_restored_tuner_s_callback_has_no_times_of_another_process(clock: Clock) -> None:
    callback, trial = PacedCheckpoints(reports=3, seconds=5.0), a_trial()
    callback.on_trial_start(0, [trial], trial)
    for again in (pickle.loads(pickle.dumps(callback)), copy.deepcopy(callback)):
        assert (again._reports, again._seconds, again._last) == (3, 5.0, {})
