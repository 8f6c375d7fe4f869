"""Records come back as they were, launches apart, and reading changes nothing."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import zotune
from tests.instrument import minimize
from tests.reporting.conftest import PROBLEM, STUDY, Recorded
from tests.solo import untimed
from zotune.callbacks.launches import found_runs, launch_starts
from zotune.callbacks.spool import Spool
from zotune.claims import Claim, Tuning
from zotune.core.spending import Spending
from zotune.errors import ConfigError, UnknownNameError
from zotune.objectives import complete_problem
from zotune.results.checkpoints import from_checkpoint, from_run
from zotune.results.configurations import best, best_trial, configurations, pool
from zotune.results.spools import spooled_in
from zotune.results.store import Store, _from_server, histories
from zotune.results.trial import Course, Trial, curve_of
from zotune.results.verdicts import verdicts_on
from zotune.runs.lookup import last_checkpoints


def test_records_hold_every_point_of_the_newest_launch_and_the_study_it_ran(
    recorded: Recorded,
) -> None:
    (launch,) = Store.open(recorded.uri).read("mine")
    assert launch.launch == recorded.second
    assert launch.file["space"] == STUDY["space"]
    assert not launch.is_running
    assert len(launch.trials) == 8
    for trial in launch.trials:
        chosen = {key: trial.config[key] for key in ("estimator", "q", "eta")}
        alone = minimize(PROBLEM, budget=200, replicates=8, **chosen).curve
        for column in ("spent", "loss", "loss_std", "gap", "evaluations"):
            assert trial.course.curve[column].tolist() == alone[column].tolist()
        assert trial.status == "exhausted"
        assert (trial.spent, trial.budget) == (200, 200)
        assert trial.config["problem"] == complete_problem(PROBLEM)


def whole(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with every option of its problem; MLflow holds those that were given."""
    return {**config, "problem": complete_problem(config["problem"])}


def test_checkpoints_and_mlflow_give_the_same_records_and_so_the_same_results(
    recorded: Recorded,
) -> None:
    (launch,) = Store.open(recorded.uri).read("mine")
    folder = Path(recorded.uri.removeprefix("sqlite:///")).parent / "mine" / recorded.second
    read = [from_checkpoint(path) for path in last_checkpoints(folder)]
    stored = {str(whole(trial.config)): trial for trial in launch.trials}
    assert stored.keys() == {str(whole(trial.config)) for trial in read}
    for mine in read:
        theirs = stored[str(whole(mine.config))]
        row, known = untimed([{**theirs.row, "start_loss": theirs.start_loss}, dict(mine.row)])
        assert row == known
        assert (theirs.status, theirs.spent) == (mine.status, mine.spent)
        assert theirs.course.losses == mine.course.losses
        assert set(theirs.course.curve) == set(mine.course.curve)
        for column in theirs.course.curve:
            assert theirs.course.curve[column].tolist() == mine.course.curve[column].tolist()
    one, other = (
        [(whole(c.config), c.row["loss"]) for c in best(configurations(t))]
        for t in (read, launch.trials)
    )
    assert one == other
    claims, tuning = [Claim(**STUDY["claims"][0])], Tuning(**STUDY["tuning"])
    assert verdicts_on(read, claims, tuning) == verdicts_on(launch.trials, claims, tuning)
    spent = [Spending.of((trial.config, trial.row) for trial in t) for t in (read, launch.trials)]
    assert spent[0] == spent[1]
    assert zotune.load_run(folder).config.q == best_trial(launch.trials).config["q"]


def test_a_spool_gives_the_curves_that_mlflow_has(recorded: Recorded) -> None:
    (launch,) = Store.open(recorded.uri).read("mine")
    folder = Path(recorded.uri.removeprefix("sqlite:///")).parent / "mine" / recorded.second
    spooled = spooled_in(folder)
    assert spooled.keys() == {trial.id for trial in launch.trials}
    for trial in launch.trials:
        mine = spooled[trial.id]
        assert mine.is_whole
        assert (mine.losses, mine.minimum) == (trial.course.losses, trial.course.minimum)
        curve = curve_of(mine.history)
        assert set(curve) == set(trial.course.curve)
        for column in curve:
            assert curve[column].tolist() == trial.course.curve[column].tolist()


def test_a_spool_without_the_start_or_the_end_of_a_curve_is_not_whole(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "curves" / "a", {"launch_id": "a"})
    begun = {"kind": "points", "trial": "begun", "points": [[0, {"loss": 2.0}]]}
    later = {"kind": "points", "trial": "later", "points": [[8, {"loss": 1.0}]]}
    ended = {"losses": [1.0], "minimum": None}
    spool.append(begun, later | ended, begun | {"trial": "twin"} | ended)
    spool.append({"kind": "superseded", "trial": "twin"})
    spool.close()
    found = spooled_in(tmp_path)
    assert {trial: one.is_whole for trial, one in found.items()} == {"begun": False, "later": False}


def test_the_query_of_a_database_finds_what_a_server_would_be_asked_for(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Store.open(recorded.uri).client
    experiment = client.get_experiment_by_name("mine")
    assert experiment is not None
    runs = list(client.search_runs([experiment.experiment_id]))
    monkeypatch.setattr("zotune.results.store.RUNS", 4)  # fewer than there are
    assert len(runs) == 11
    found = histories(client, runs)
    assert found == [_from_server(client, run) for run in runs]
    assert sum(map(bool, found)) == 9  # the summaries have no curves


def test_a_value_that_is_no_number_is_not_read_as_zero(empty_store: Path, tmp_path: Path) -> None:
    """Databases keep NaN as a zero with a mark; runs of others may hold one."""
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    client = Store.open(f"sqlite:///{tmp_path / 'mlflow.db'}").client
    run = client.create_run(client.create_experiment("other"))
    client.log_metric(run.info.run_id, "loss", float("nan"), step=3)
    [history] = histories(client, [client.get_run(run.info.run_id)])
    assert math.isnan(history["loss"][3])


def test_launches_are_taken_one_at_a_time_unless_more_are_named(recorded: Recorded) -> None:
    store = Store.open(recorded.uri)
    assert store.launches("mine") == [recorded.second, recorded.first]
    (first,) = store.read("mine", [recorded.first])
    assert [trial.name for trial in first.trials] == ["avg q=1"]
    both = store.read("mine", ["all"])
    assert [launch.launch for launch in both] == [recorded.first, recorded.second]


@pytest.mark.parametrize("named", [True, False])
def test_a_launch_is_read_without_the_runs_of_others(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    store, read = Store.open(recorded.uri), []
    search = store.client.search_runs

    def watched(*args: Any, **kwargs: Any) -> Any:
        found = search(*args, **kwargs)
        read.extend(run.data.tags["zotune.launch_id"] for run in found)
        return found

    monkeypatch.setattr(store.client, "search_runs", watched)
    wanted = recorded.first if named else recorded.second
    (launch,) = store.read("mine", [wanted] if named else [])
    assert launch.launch == wanted
    assert set(read) == {wanted}


def test_launches_are_listed_by_a_database_as_by_a_server(recorded: Recorded) -> None:
    client = Store.open(recorded.uri).client
    experiment = client.get_experiment_by_name("mine")
    assert experiment is not None
    found = launch_starts(client, experiment.experiment_id)
    by_runs: dict[str, int] = {}
    for run in found_runs(client, [experiment.experiment_id]):
        launch, start = run.data.tags["zotune.launch_id"], run.info.start_time
        by_runs[launch] = min(start, by_runs.get(launch, start))
    assert found == by_runs
    assert list(found) == [recorded.second, recorded.first]


def test_a_launch_or_a_study_that_is_not_there_is_named_with_those_that_are(
    recorded: Recorded,
) -> None:
    store = Store.open(recorded.uri)
    with pytest.raises(UnknownNameError, match=f"launch of mine 'x' .*{recorded.first}"):
        store.read("mine", ["x"])
    with pytest.raises(UnknownNameError, match=r"study 'mime' .*did you mean 'mine'"):
        store.read("mime")


def test_a_store_that_does_not_exist_is_not_made_by_reading(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    with pytest.raises(ConfigError, match=r"there is no tracking store at .*none\.db; give"):
        Store.open(f"sqlite:///{path}")
    assert list(tmp_path.iterdir()) == []


def test_parts_of_the_replicates_pool_to_the_curve_of_all() -> None:
    settings = {"estimator": "avg", "q": 3, "budget": 100}
    parts = [
        from_run(minimize(PROBLEM, replicate=first, replicates=many, **settings)).course.curve
        for first, many in ((0, 1), (1, 3))
    ]
    whole = from_run(minimize(PROBLEM, replicates=4, **settings)).course.curve
    pooled = pool(parts, [1, 3])
    for column in ("spent", "loss", "loss_std", "gap"):
        assert pooled[column].tolist() == pytest.approx(whole[column].tolist(), abs=1e-9)


def test_a_diverged_replicate_keeps_its_last_value_to_the_end_of_the_others() -> None:
    def trial(replicate: int, spent: list[int], losses: list[float], status: str) -> Trial:
        curve = pd.DataFrame({"spent": spent, "loss": losses, "loss_std": 0.0})
        config = {"q": 1, "replicate": replicate, "replicates": 1}
        row = {"spent": spent[-1], "loss": losses[-1], "loss_std": 0.0}
        return Trial(f"t{replicate}", "q=1", status, config, row, lambda: Course(curve))

    [pooled] = configurations(
        [
            trial(0, [0, 1, 2, 3], [8.0, 4.0, 2.0, 1.0], "exhausted"),
            trial(1, [0, 1], [8.0, 9.0], "diverged"),
        ]
    )
    assert pooled.points["spent"].tolist() == [0, 1, 2, 3]
    assert pooled.points["loss"].tolist() == [8.0, 6.5, 5.5, 5.0]
    assert pooled.is_whole


@pytest.mark.parametrize(("seeds", "replicates"), [((0, 0), 3), ((0, 1), 6), ((None, None), 6)])
def test_a_run_that_was_made_twice_is_no_further_replicate(
    seeds: tuple[int | None, int | None], replicates: int
) -> None:
    def trial(at: int, last: int) -> Trial:
        config = {"q": 1, "replicates": 3} | ({} if seeds[at] is None else {"seed": seeds[at]})
        curve = pd.DataFrame({"spent": range(last + 1), "loss": 1.0, "loss_std": 0.5})
        row = {"spent": last, "loss": 1.0, "loss_std": 0.5}
        return Trial(f"t{at}", "q=1", "exhausted", config, row, lambda: Course(curve))

    [pooled] = configurations([trial(0, 2), trial(1, 5)])
    assert pooled.replicates == replicates
    if replicates == 3:
        assert pooled.points["spent"].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_trial_that_the_total_has_cut_is_not_judged_and_one_that_diverged_is() -> None:
    def trial(estimator: str, spent: int, status: str = "exhausted") -> Trial:
        config = {"estimator": estimator, "q": 4, "budget": 1000, "replicates": 2}
        course = Course(pd.DataFrame({"spent": [spent], "loss": [1.0]}), losses=(1.0, 1.0))
        return Trial(estimator, estimator, status, config, {"spent": spent}, lambda: course)

    sides = {"lower": {"estimator": "align"}, "higher": {"estimator": "avg"}}
    claims = [Claim(name="one", says="Align ends lower.", compare=sides)]
    found, why = verdicts_on([trial("avg", 1000), trial("align", 300)], claims, None)
    assert (found, "1 of 2 trials have not spent their budget" in why) == ([], True)
    for other in (trial("align", 995), trial("align", 300, "diverged")):
        found, why = verdicts_on([trial("avg", 1000), other], claims, None)
        assert (len(found), why) == (1, "")
