"""Trials that a restored Tuner has forgotten are left out, and their runs say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import zotune
from tests.callbacks.conftest import runs
from tests.callbacks.test_records import a_trial
from zotune.callbacks import sync
from zotune.callbacks.journal import Journal
from zotune.callbacks.serving import page_of
from zotune.callbacks.session import Session, open_session
from zotune.results.store import Store

ABOUT: dict[str, Any] = {"experiment": "mine", "tags": {}}


def trial(name: str, q: int) -> Any:
    config = {"problem": {"name": "quadratic"}, "estimator": "align", "budget": 100, "q": q}
    made = a_trial(zotune.ZOTrainable, config=config, evaluated_params={"q": q})
    made.trial_id = name
    return made


def report(session: Session, one: Any, *, ends: bool) -> None:
    """Let a trial report a point, and its end."""
    row = {"spent": 50, "loss": 0.5, "status": "exhausted" if ends else "running"}
    one.run_metadata.last_result = row
    session.write(session.journal.start(one))
    session.write(session.journal.result(one, row, None))
    if ends:
        session.write(session.journal.end(one, "FINISHED"))


@pytest.fixture
def forgetful(tmp_path: Path, store: str) -> str:
    """A store to which a driver was delivered that was killed, restored, and went to its end."""
    folder = str(tmp_path / "spool")
    about = ABOUT | {"tracking_uri": store}
    kept, lost, again = trial("kept", 1), trial("lost", 2), trial("again", 2)
    killed = open_session([kept, lost], store, about, folder)
    report(killed, kept, ends=False)
    report(killed, lost, ends=False)
    killed.spool.close()
    assert sync(folder, seconds=0)[0].is_complete
    assert set(runs(store, "mine")) == {"align q=1", "align q=2"}
    restored = open_session([kept, again], store, about, folder)
    report(restored, kept, ends=True)
    report(restored, again, ends=True)
    restored.write([restored.journal.close()])
    restored.spool.close()
    assert sync(folder, seconds=0)[0].is_complete
    assert sync(folder, seconds=0)[0].points == 0
    return store


def test_a_trial_that_tune_has_forgotten_is_superseded_in_the_store(forgetful: str) -> None:
    (lost,) = runs(forgetful, "mine", "superseded").values()
    assert lost.data.tags["zotune.trial_id"] == "lost"
    assert (lost.info.status, lost.data.tags["zotune.status"]) == ("KILLED", "superseded")
    living = runs(forgetful, "mine").values()
    assert {run.data.tags["zotune.trial_id"] for run in living} == {"kept", "again"}
    assert {run.info.status for run in living} == {"FINISHED"}


def test_a_superseded_trial_is_in_no_report_page_or_summary(forgetful: str) -> None:
    (launch,) = Store.open(forgetful).read("mine")
    assert [trial.id for trial in launch.trials] == ["kept", "again"]
    (summary,) = runs(forgetful, "mine", "summary").values()
    assert summary.info.status == "FINISHED"
    assert "2 finished." in summary.data.tags["mlflow.note.content"]
    assert page_of(["mine"], forgetful)[1].path.startswith("/#/experiments/")


def kinds(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(record["kind"], record["trial"]) for record in records]


def ended(status: str) -> list[dict[str, Any]]:
    """Records of a trial that has ended."""
    journal, one = Journal(), trial("old", 2)
    return [*journal.start(one), *journal.end(one, status)]


def test_an_interrupted_trial_has_not_ended_and_a_finished_one_waits_for_its_twin() -> None:
    assert kinds(Journal(ended("KILLED")).leave_out([])) == [("superseded", "old")]
    journal = Journal(ended("FINISHED"))
    assert journal.leave_out([]) == []
    assert kinds(journal.start(trial("other", 3))) == [("started", "other")]
    twins = journal.start(trial("twin", 2))
    assert kinds(twins) == [("started", "twin"), ("superseded", "old")]
    assert kinds(journal.start(trial("third", 2))) == [("started", "third")]


def test_a_superseded_trial_is_unknown_until_tune_has_it_again() -> None:
    records = ended("KILLED")
    journal = Journal([*records, *Journal(records).leave_out([])])
    assert not journal.knows("old")
    assert journal.leave_out([]) == []
    assert kinds(journal.result(trial("old", 2), {"spent": 1, "loss": 1.0}, None)) == [
        ("started", "old"),
        ("points", "old"),
    ]


def test_trials_that_tune_still_has_stay() -> None:
    assert Journal(ended("KILLED")).leave_out(["old"]) == []
