"""A grid gets further values of its tuned setting in the same launch, before claims are judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ray import cloudpickle
from ray.tune.experiment import Experiment, Trial

from zotune.claims import Finals, Tuning, refinement
from zotune.cli import main
from zotune.core.names import CHARGED, ENDS_KEY
from zotune.core.settings import setting
from zotune.results.trial import Course
from zotune.results.trial import Trial as Ended
from zotune.results.verdicts import verdicts_on
from zotune.study import Study
from zotune.study.past import FINISHED, Past, ids_of
from zotune.study.refining import RefinedGrid
from zotune.study.tuning import param_space, search
from zotune.tune.trainables import ZOTrainable

LIMIT = 1.9
FOLDER = Path("nowhere")
STUDY: dict[str, Any] = {
    "name": "mine",
    "problem": {"name": "quadratic", "dim": 20, "condition": 10},
    "budget": 400,
    "count": "directions",
    "replicates": 9,
    "space": {"q": [1, 20], "eta": [1, 1.5, 2]},
    "fixed": {"estimator": "align", "update": "sgd", "step": "theory", "mu": 1e-6},
    "claims": [{"name": "a", "says": "Blocks help.", "not_rising": "q", "within": 0.05}],
    "tuning": {"over": "eta", "replicates": 3, "theory": 1},
}


def grid_of(study: Study, past: Mapping[str, Past] | None = None) -> RefinedGrid:
    """The search of a study, as Tune sets it up."""
    found = search(study, FOLDER, past=past)
    assert isinstance(found, RefinedGrid)
    space = param_space(study)
    found.add_configurations(Experiment("x", ZOTrainable, config=space, num_samples=study.size))
    return found


def row_of(eta: float) -> dict[str, Any]:
    """The last row of a trial that is better the longer its step, up to a limit."""
    lost = eta >= LIMIT
    ends = {"losses": [1 / eta] * 9, "which_diverged": [lost] * 9, "minimum": 0.0}
    return {ENDS_KEY: json.dumps(ends), "start_loss": 3.0}


def run_out(grid: RefinedGrid, spoil: Callable[[int], bool] = lambda at: False) -> list[float]:
    """Run all trials of a search, two at a time; returns the steps in their order."""
    steps, running = list[float](), list[Any]()
    while not grid.is_finished() or running:
        while len(running) < 2 and (trial := grid.next_trial()):
            running.append(trial)
            steps.append(float(setting(trial.config, "eta")))
        if running:
            trial = running.pop(0)
            at = int(trial.trial_id.rpartition("_")[2])
            failed = spoil(at)
            grid.on_trial_complete(
                trial.trial_id, None if failed else row_of(trial.config["eta"]), error=failed
            )
    return steps


def test_further_trials_follow_the_grid_until_the_gap_at_the_limit_is_small(
    caplog: pytest.LogCaptureFixture,
) -> None:
    steps = run_out(grid_of(Study(**STUDY)))
    assert not caplog.records  # Tune warns of values outside a search space
    assert steps[:6] == [1, 1, 1.5, 1.5, 2, 2]
    assert steps[6:8] == [1.73, 1.73]
    assert LIMIT / 1.06 < max(eta for eta in steps if eta < LIMIT) < LIMIT


def test_a_search_that_was_saved_goes_on_as_it_would_have() -> None:
    study = Study(**STUDY)
    whole, first = run_out(grid_of(study)), grid_of(study)
    waiting = [first.next_trial() for _ in range(6)]
    for trial in waiting:
        assert trial is not None
        first.on_trial_complete(trial.trial_id, row_of(trial.config["eta"]))
    state = cloudpickle.dumps(first.get_state())
    second = grid_of(study)
    second.set_state(cloudpickle.loads(state))
    assert whole == [1, 1, 1.5, 1.5, 2, 2, *run_out(second)]


@pytest.mark.parametrize("ended", [0, 5, 6, 7, 9])
def test_a_resumed_launch_is_refined_as_it_would_have_been(ended: int) -> None:
    study = Study(**STUDY)
    whole = run_out(grid_of(study))
    past = {f"{ids_of(FOLDER.name)}{at:05}": past_of_step(whole[at]) for at in range(ended)}
    resumed, again = grid_of(study, past), list[float]()
    while len(again) < ended:
        trial = resumed.next_trial()
        assert trial is not None
        assert trial.status == Trial.TERMINATED
        again.append(float(setting(trial.config, "eta")))
    assert again + run_out(resumed) == whole


def past_of_step(eta: float) -> Past:
    """The record of a trial that has ended."""
    return Past(rows=[row_of(eta) | {CHARGED: 3600}], over=FINISHED)


def test_a_failed_trial_ends_the_refinement() -> None:
    assert len(run_out(grid_of(Study(**STUDY)), spoil=lambda at: at == 3)) == 6


def test_only_a_grid_with_claims_and_tuning_is_refined() -> None:
    assert Study(**STUDY).refines
    off = {**STUDY["tuning"], "refine": False}
    assert not Study(**STUDY | {"tuning": off}).refines
    assert not Study(**{k: v for k, v in STUDY.items() if k not in ("claims", "tuning")}).refines
    drawn = {**STUDY["space"], "eta": {"loguniform": [1, 2]}}
    tuning = {"over": "eta", "replicates": 3}
    random = {"space": drawn, "search": {"algorithm": "random", "trials": 6}, "tuning": tuning}
    assert not Study(**STUDY | random).refines


def test_claims_are_not_judged_while_values_beside_the_best_are_missing() -> None:
    study = Study(**STUDY)

    def trial(q: int, eta: float) -> Ended:
        ends = json.loads(row_of(eta)[ENDS_KEY])
        course = Course(None, ends["losses"], 0.0, diverged=ends["which_diverged"])  # type: ignore[arg-type]
        row = {"start_loss": 3.0, "spent": 400}
        return Ended("", "", "exhausted", {"q": q, "eta": eta}, row, lambda: course)

    trials = [trial(q, eta) for q in (1, 20) for eta in (1.0, 1.5, 2.0)]
    verdicts, why = verdicts_on(trials, study.claims, study.tuning)
    assert verdicts == []
    assert "1.73 was not tried; run the study again, or say tuning: {refine: false}" in why
    unrefined = Tuning(**STUDY["tuning"] | {"refine": False})
    verdicts, why = verdicts_on(trials, study.claims, unrefined)
    assert why == ""
    assert "where 1 ends higher and 2 diverges: a better one may lie between" in verdicts[-1].why


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_a_run_is_refined_in_its_own_launch_and_says_how_many_trials_that_took(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(STUDY))
    words = ["run", str(path), "--storage", str(tmp_path / "out"), "--tracking-uri", "none"]
    told = CliRunner().invoke(main, [*words, "--json"])
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert found["trials"] > 6
    assert found["refined"] == found["trials"] - 6
    assert found["spent"]["charged"] == found["trials"] * 9 * 400
    assert [verdict["step"] for verdict in found["verdicts"]] == ["theory", "tuned"]
    assert "may lie between" not in found["verdicts"][1]["why"]


def test_the_rule_is_the_same_for_the_search_and_for_the_judge() -> None:
    study = Study(**STUDY)
    grid = grid_of(study)
    run_out(grid)
    finals = [
        Finals(dict(point), **_ends(float(point["eta"])), start=3.0) for point in grid._points
    ]
    assert refinement(finals, study.tuning, study.claims) == []


def _ends(eta: float) -> dict[str, Any]:
    ends = json.loads(row_of(eta)[ENDS_KEY])
    return {"losses": ends["losses"], "diverged": ends["which_diverged"], "minimum": 0.0}
