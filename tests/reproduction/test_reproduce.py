"""The paper in one go: plans, one page, and going on where it was left."""

from __future__ import annotations

import re
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from zotune.callbacks.spool import FOLDER, Spool
from zotune.claims import Verdict
from zotune.cli import main
from zotune.cli.reproduce_command import ReproduceRequest, _is_whole, ensure
from zotune.reporting.page import page
from zotune.reporting.report import Report
from zotune.reproduction import plan
from zotune.reproduction.measured import measured, sections
from zotune.reproduction.pages import overview, word
from zotune.reproduction.plan import EXPERIMENTS, FULL, SMALL, Experiment, chosen
from zotune.study.launch import new_launch
from zotune.study.studyfile import shipped_studies

TINY = Experiment(
    "strongly-convex-tuned-500",
    (
        "problem.dim=12",
        "budget=2400",
        "space.q=[1,12]",
        "space.eta=[0.5,1]",
        "replicates=12",
        "tuning.replicates=2",
    ),
)


def invoke(folder: Path, *words: str) -> Result:
    given = ["--storage", str(folder / "results"), "--output", str(folder / "page")]
    store = f"sqlite:///{folder / 'mlflow.db'}"
    return CliRunner().invoke(main, ["reproduce", *given, "--tracking-uri", store, *words])


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.study)
def test_small_and_full_studies_state_the_same_claims(experiment: Experiment) -> None:
    small, full = experiment.at(SMALL), experiment.at(FULL)
    assert small.name == f"{full.name}-small"
    assert small.claims == full.claims != []
    if full.tuning and full.tuning.theory:  # a study of steps that no theory knows has none
        theory = small.tuning.theory if small.tuning else None
        values = theory.values() if isinstance(theory, dict) else [theory]
        assert all(value in small.axes["eta"] for value in values)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.study)
def test_over_instances_every_claim_is_judged_across_them(experiment: Experiment) -> None:
    once, many = experiment.at(SMALL), experiment.at(SMALL, instances=8)
    assert {claim.across for claim in many.claims} == {"problem.seed"}
    assert [claim.says for claim in many.claims] == [claim.says for claim in once.claims]
    if "problem.seed" in once.space:
        assert many == once
        return
    chosen_by = many.tuning.replicates if many.tuning else 0
    assert many.axes["problem.seed"] == list(range(chosen_by + 8))
    assert many.size == once.size * (chosen_by + 8)
    assert many.name == f"{once.name}-instances"


def test_too_few_instances_to_decide_are_refused(tmp_path: Path) -> None:
    done = invoke(tmp_path, "--only", "bias", "--instances", "3")
    assert done.exit_code == 2
    assert "instances must be at least 8 to decide the 4 claims of bias, got 3" in done.output


def test_every_experiment_of_the_paper_is_among_them() -> None:
    tuned = {name for name in shipped_studies() if "-tuned" in name}
    assert tuned <= {experiment.study for experiment in EXPERIMENTS}
    papers = {e.study for e in EXPERIMENTS if not e.beyond}
    assert len(tuned & papers) == 8


def test_an_experiment_that_nobody_knows_is_refused_with_the_nearest(tmp_path: Path) -> None:
    done = invoke(tmp_path, "--only", "convex-tune")
    assert done.exit_code == 2
    assert "experiment 'convex-tune' is not known (did you mean 'convex-tuned'?)" in done.output
    assert [study.name for study in chosen(FULL, ["bias"])] == ["bias"]


@pytest.mark.parametrize("typed", ["nonconvex", "nonconvex-tuned"])
def test_a_plain_name_means_the_tuned_study_which_has_the_theorys_step(typed: str) -> None:
    (study,) = chosen(FULL, [typed])
    assert study.name == "nonconvex-tuned"
    assert study.tuning is not None
    assert study.tuning.theory in study.space["eta"]


def test_measurements_are_made_once_and_told(tmp_path: Path) -> None:
    errors, grams = measured(SMALL, tmp_path)
    assert (errors, grams) == measured(SMALL, tmp_path)
    told = sections(errors, grams)
    assert f"{len(errors)} of {len(errors)} measured errors agree" in told[0].text[0]
    assert "times √(q/d) from d = 10 to 10000" in told[1].text[0]


def test_measurements_alone_make_a_page_without_a_store(tmp_path: Path) -> None:
    done = invoke(tmp_path, "--only", "measurements")
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "mlflow.db").exists()
    page = (tmp_path / "page" / "reproduction.html").read_text(encoding="utf-8")
    assert page.count("<figure") == 3
    assert {"mse.png", "gram.png", "gram-deviation.png"} <= {
        file.name for file in (tmp_path / "page").iterdir()
    }


@pytest.mark.faults
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Tune's open files
@pytest.mark.usefixtures("shared_ray")
def test_an_interrupted_experiment_goes_on_to_its_page_and_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "EXPERIMENTS", (TINY,))
    home = tmp_path / "results" / f"{TINY.study}-small"

    def press() -> None:
        while not list(home.glob("*/*/result.json")):
            time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    stopped = invoke(tmp_path, "--only", TINY.study)
    assert stopped.exit_code == 130, stopped.output
    assert "The same command goes on." in stopped.output

    done = invoke(tmp_path, "--only", TINY.study)
    assert done.exit_code == 0, done.output
    assert f"{TINY.study}-small continues: 8 trials" in done.output
    page = (tmp_path / "page" / "reproduction.html").read_text(encoding="utf-8")
    assert "Under avg q = 1 beats the largest block." in page
    assert page.count("<figure") >= 3
    assert len((tmp_path / "page" / "verdicts.csv").read_text().splitlines()) == 1 + 2 * 6

    console = Console(record=True)
    request = ReproduceRequest(storage=tmp_path / "results")
    launch, outcome = ensure(TINY.at(SMALL), request, console)
    assert outcome is None
    assert [folder.name for folder in home.iterdir()] == [launch.id]
    assert f"{TINY.study}-small: done, launch {launch.id}" in console.export_text()


def test_a_launch_with_failures_or_without_records_is_not_done(tmp_path: Path) -> None:
    with new_launch(TINY.at(SMALL), tmp_path) as launch:
        assert not _is_whole(launch.record("finished"))
        spool = Spool(launch.folder / FOLDER / launch.id, {"launch_id": launch.id})
        spool.close()
        assert _is_whole(launch.record("finished", failed=0))
        assert not _is_whole(launch.record("finished", failed=2))
        assert not _is_whole(launch.record("finished", refused=True))


def test_the_first_table_has_each_claim_once_with_both_verdicts_and_their_colours() -> None:
    def verdict(name: str, step: str, word: str, estimate: float | None, why: str = "") -> Verdict:
        said = f"{name} is so."
        return Verdict(name, said, step, word, estimate, None, None, None, 10, why)

    found = [
        verdict("one", "theory", "holds", 0.123),
        verdict("one", "tuned", "fails", -0.5, "the best step may lie beyond"),
        verdict("two", "theory", "undecided", None),
    ]
    report = Report("study", [], [], pd.DataFrame(), pd.DataFrame(), found, {})
    section = overview([report])
    assert section.text == ["1 holds, 1 fails, 1 undecided."]
    assert section.tables[0].rows == [
        ["study", "one is so.", "holds +12 %", "fails -50 % †"],
        ["", "two is so.", "undecided", "—"],
    ]
    assert '<td class="fails">fails -50 %' in page("", [section])
    untuned = replace(report, verdicts=[verdict("one", "as run", "holds", 0.5)])
    table = overview([untuned]).tables[0]
    assert (table.columns[2:], table.rows) == (
        ["as run"],
        [["study", "one is so.", "holds +50 %"]],
    )


def test_a_verdict_with_divergence_counts_it_and_has_no_ratio() -> None:
    lost = Verdict(
        "a", "It is so.", "tuned", "holds", None, 0.1, None, 0.01, 8, "", diverged=(0, 5)
    )
    assert word(lost) == "holds diverged: 5 of 8 against 0"
    some = replace(lost, estimate=0.5, diverged=(0, 2))
    assert word(some) == "holds +50 % in the median (diverged: 2 of 8 against 0)"
    assert word(replace(some, diverged=(0, 0), high=0.8)) == "holds +50 % (+10 % … +80 %)"


def test_arithmetic_means_that_say_the_opposite_are_marked() -> None:
    why = "…; arithmetic means, which figures show, are the other way round: a 9, b 1."
    odd = Verdict("a", "It is so.", "theory", "holds", 14.1, 0.42, 107.0, 0.01, 10, why)
    assert word(odd) == "holds × 15.1 (+42 % … × 108) §"


def test_the_walk_through_the_paper_names_studies_and_figures_that_exist() -> None:
    docs = Path(__file__).parents[2] / "docs"
    text = "\n".join(page.read_text(encoding="utf-8") for page in docs.glob("paper*.md"))
    figures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    assert len(figures) > 5
    assert all((docs / figure).is_file() for figure in figures)
    named = {
        *re.findall(r"zotune run ([a-z0-9-]+)", text),
        *re.findall(r"--only ([a-z0-9-]+)", text),
    }
    assert named - {"measurements"} <= set(shipped_studies())
