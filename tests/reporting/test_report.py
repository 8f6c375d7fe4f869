"""``zotune report``: from a store to files that agree with it, also while a study runs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import zotune
from tests.instrument import minimize
from tests.reporting.conftest import PROBLEM, Recorded, report, series_of
from tests.servers import Server
from zotune.callbacks.records import ENDED, POINTS, STARTED, params_of
from zotune.callbacks.spool import Spool
from zotune.callbacks.stores import open_client
from zotune.callbacks.tracking import Delivery
from zotune.reporting.figures import curves
from zotune.reporting.page import Section, Table, markdown, page
from zotune.reporting.report import build
from zotune.results.checkpoints import from_run
from zotune.results.store import Store

ABOUT: dict[str, Any] = {"launch_id": "now", "experiment": "delivered", "time": 10**12}


def test_a_report_is_written_from_the_records_and_attached_to_the_launch(
    recorded: Recorded, written_report: tuple[Path, str]
) -> None:
    folder, said = written_report
    assert f"Launch {recorded.second}" in said
    assert "Spent 12,800 directions in all, by 8 trials, which took" in said  # 8 × 8 × 200
    assert "; not charged: " in said
    assert f"report: {folder / 'report.html'}" in said
    assert recorded.first in said.splitlines()[-1]
    written = {path.name for path in folder.iterdir()}
    names = (
        "curves",
        "guarantee",
        "price",
        "time",
        "final",
        "best-step",
        "loss-by-step",
        "heat-map",
    )
    figures = {f"{name}.{kind}" for name in names for kind in ("png", "svg", "pdf")}
    assert written == {*figures, "curves.csv", "table.csv", "report.md", "report.html"}
    (launch,) = Store.open(recorded.uri).read("mine")
    assert launch.summary is not None
    attached = open_client(recorded.uri).list_artifacts(launch.summary, "report")
    assert {Path(file.path).name for file in attached} == written


def test_tables_hold_the_curves_and_the_ends_of_all_configurations(
    recorded: Recorded, written_report: tuple[Path, str]
) -> None:
    rows = pd.read_csv(written_report[0] / "curves.csv")
    table = pd.read_csv(written_report[0] / "table.csv")
    assert len(table) == 8
    assert table["best"].sum() == 4
    assert set(table["launch"]) == {recorded.second}
    for chosen, group in rows.groupby(["estimator", "q", "eta"]):
        settings = dict(zip(("estimator", "q", "eta"), chosen, strict=True))
        alone = minimize(PROBLEM, budget=200, replicates=8, **settings)
        assert group["loss"].tolist() == pytest.approx(alone.curve["loss"].tolist(), rel=1e-12)
        (end,) = table.query("estimator == @chosen[0] and q == @chosen[1] and eta == @chosen[2]")[
            "gap"
        ]
        assert end == pytest.approx(alone.rows[-1]["gap"], rel=1e-12)
        assert end == pytest.approx(group["gap"].iloc[-1], rel=1e-12)


def test_claims_of_the_study_are_judged_at_both_steps_from_the_records_alone(
    recorded: Recorded, written_report: tuple[Path, str]
) -> None:
    (launch,) = Store.open(recorded.uri).read("mine")
    verdicts = build([launch]).verdicts
    assert [(v.name, v.step, v.pairs) for v in verdicts] == [
        ("one", "theory", 6),
        ("one", "tuned", 6),
    ]
    ends = {
        q: minimize(PROBLEM, estimator="avg", q=q, eta=1, budget=200, replicates=8) for q in (1, 10)
    }
    gaps = {q: _gaps(run)[2:] for q, run in ends.items()}
    expected = float(np.exp(np.log(gaps[10]).mean() - np.log(gaps[1]).mean())) - 1
    assert verdicts[0].estimate == pytest.approx(expected, rel=1e-6)
    assert verdicts[0].verdict == "holds"
    folder, said = written_report
    assert "holds at the theory step: Averaging ends lowest with one query." in said
    row = r"\| Averaging ends lowest with one query\. \| theory \| holds( †)? \| × 1"
    assert re.search(row, (folder / "report.md").read_text())


def _gaps(run: zotune.Run) -> np.ndarray[Any, Any]:
    return run.state.loss.numpy() - float(run.minimum or 0.0)


def deliver(
    folder: Path,
    uri: str,
    reached: dict[int, int],
    *,
    status: str = "FINISHED",
    tags: dict[str, str] | None = None,
    study: dict[str, Any] | None = None,
    launch: str = "now",
) -> Delivery:
    """Trials of ``avg`` by q in a store, each as far as it has come; at 40 it has ended."""
    settings = {"problem": PROBLEM, "estimator": "avg", "budget": 40, "count": "directions"}
    about = ABOUT | {"launch_id": launch, "tracking_uri": uri}
    spool = Spool(folder, about | {"study": study and yaml.safe_dump(study)})
    for q, end in reached.items():
        rows = minimize(PROBLEM, estimator="avg", q=q, budget=40).rows
        points = [[r["spent"], {"loss": r["loss"], "gap": r["gap"]}] for r in rows]
        trial = {"trial": f"t{q}", "time": 10**12}
        params = params_of(settings | {"q": q})
        spool.append(trial | {"kind": STARTED, "name": f"avg q={q}", "params": params})
        spool.append(trial | {"kind": POINTS, "points": [p for p in points if p[0] <= end]})
        if end == 40:
            ended = {"status": status, "step": 40, "final": points[-1][1], "tags": tags or {}}
            spool.append(trial | {"kind": ENDED, **ended})
    spool.close()
    delivery = Delivery(folder, uri)
    assert delivery.advance()
    return delivery


def test_a_study_that_still_runs_is_reported_as_far_as_it_is(store: str, tmp_path: Path) -> None:
    deliver(tmp_path / "spool", store, {1: 40, 10: 17})
    said = report("delivered", "-o", str(tmp_path / "out"), "--tracking-uri", store)
    assert "2 trials, still running: 1 ended." in said
    assert "running: avg q=10 at 17 of 40" in said
    assert "not attached: the launch has no summary run yet" in said
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| avg q=10 | 17 | 40 | 42% |" in text
    assert "1 of 2 configurations have not spent their budget" in text
    assert not list((tmp_path / "out").glob("*.pdf"))  # nobody has asked for them


@pytest.mark.parametrize(
    ("reached", "of_study", "state"),
    [
        ({1: 40, 10: 17}, {"q": [1, 2, 5, 10]}, "4 trials, unfinished: 2 begun, 1 ended."),
        ({1: 40, 10: 40}, {"q": [1, 2, 5, 10]}, "4 trials, unfinished: 2 begun, 2 ended."),
        ({1: 40, 10: 40}, {"q": [1, 10, 50]}, "2 trials, ended."),  # 50 is more than there are
        ({1: 40, 10: 17}, {"estimator": ["theirs"]}, "2 trials, unfinished: 1 ended."),
        ({1: 40, 10: 17}, None, "2 trials, unfinished: 1 ended."),
        ({1: 40, 10: 40}, None, "2 trials, ended."),
    ],
)
def test_a_launch_whose_driver_died_is_unfinished_and_says_how_many_trials_began_and_ended(
    store: str, tmp_path: Path, reached: dict[int, int], of_study: Any, state: str
) -> None:
    study = {"name": "delivered", "problem": PROBLEM, "budget": 40, "space": of_study}
    deliver(tmp_path / "spool", store, reached, study=of_study and study).finish()
    lead = build(Store.open(store).read("delivered")).lead
    assert lead[0].endswith(f"UTC: {state}")


def test_of_many_instances_two_have_every_figure_and_the_others_their_curves(
    store: str, tmp_path: Path
) -> None:
    deliver(tmp_path / "spool", store, {1: 40})
    (launch,) = Store.open(store).read("delivered")
    trials = [
        from_run(minimize(PROBLEM | {"seed": seed}, estimator="avg", q=q, budget=40))
        for seed in range(4)
        for q in (1, 10)
    ]
    report = build([replace(launch, trials=trials)])
    drawn = [[one.name for one in section.drawings] for section in report.sections]
    assert [len(names) > 2 for names in drawn] == [False, True, True, False, False]
    assert drawn[3:] == [["part3-curves"], ["part4-curves"]]
    assert "for the first 2 problems of a launch" in report.sections[-1].drawings[0].notes[-1]
    assert len(report.table) == 8


def test_a_part_that_fails_is_named_and_the_rest_of_the_report_is_made(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("Encountered zero total variance in all trees.")

    deliver(tmp_path / "spool", store, {1: 40})
    (launch,) = Store.open(store).read("delivered")
    trials = [from_run(minimize(PROBLEM, estimator="avg", q=q, budget=40)) for q in (1, 10)]
    launch = replace(launch, trials=trials)
    whole = build([launch])
    monkeypatch.setattr("zotune.reporting.report.importance_sentence", fails)
    monkeypatch.setattr("zotune.reporting.choosing_figures.best_so_far", fails)
    part = build([launch])
    said = part.sections[-1].text
    why = "(Encountered zero total variance in all trees)"
    assert said[-2:] == [
        f"Not made: the importance of settings {why}.",
        f"Not made: the figure price {why}.",
    ]
    assert [one.name for one in part.sections[-1].drawings] == [
        one.name for one in whole.sections[-1].drawings if one.name != "price"
    ]
    part.write(tmp_path / "out")
    assert why in (tmp_path / "out" / "report.md").read_text()


def test_every_number_of_a_row_is_of_the_end_of_its_trial(store: str, tmp_path: Path) -> None:
    """A trial ends between two points of the grid where a scheduler stops it or it diverges."""

    def values(spent: int) -> dict[str, float]:
        counts = {"evaluations": 2 * spent, "queries": spent, "steps": spent - 9, "diverged": 0}
        return {"loss": 50.0 - spent, "loss_std": 0.5, "gap": 60.0 - spent, **counts}

    spool = Spool(tmp_path / "spool", ABOUT | {"tracking_uri": store})
    ends = {"stopped early": 50, "diverged": 26, "interrupted": None}
    for q, (status, end) in enumerate(ends.items(), 1):
        trial = {"trial": f"t{q}", "time": 10**12}
        params = {"estimator": "avg", "q": str(q), "budget": "80"}
        spool.append(trial | {"kind": STARTED, "name": f"avg q={q}", "params": params})
        points = [[at, values(min(at, end or at))] for at in (0, 20, 40)]
        spool.append(trial | {"kind": POINTS, "points": points})
        if end is not None:
            last = {"status": "FINISHED", "step": end, "final": values(end)}
            spool.append(trial | {"kind": ENDED, **last, "tags": {"zotune.status": status}})
    spool.close()
    delivery = Delivery(tmp_path / "spool", store)
    assert delivery.advance()
    delivery.finish()
    table = build(Store.open(store).read("delivered")).table.set_index("status")
    assert set(table.index) == set(ends)
    for status, end in ends.items():
        expected = {"spent": end or 40, **values(end or 40)}
        row = table.loc[status].to_dict()
        assert {key: row[key] for key in expected} == expected


@pytest.mark.long
def test_a_report_comes_from_a_server_as_well(running_server: Server, tmp_path: Path) -> None:
    uri = f"http://127.0.0.1:{running_server.port}"
    deliver(tmp_path / "spool", uri, {1: 40, 10: 40}).finish()
    said = report("delivered", "-o", str(tmp_path / "out"), "--tracking-uri", uri)
    assert "attached to the launch's summary run" in said
    (launch,) = Store.open(uri).read("delivered")
    assert launch.summary is not None
    found = open_client(uri).list_artifacts(launch.summary, "report")
    assert "report/report.html" in {file.path for file in found}


def test_bad_input_is_one_line_and_exit_code_2(recorded: Recorded, tmp_path: Path) -> None:
    words = ["nothing", "-o", str(tmp_path / "out"), "--tracking-uri", recorded.uri]
    assert report(*words, code=2).startswith("zotune: study 'nothing' is not known")
    assert not (tmp_path / "out").exists()


def test_names_cannot_break_out_of_the_page() -> None:
    evil = "</script><b>$x$ & |"
    drawing = curves(series_of(PROBLEM))
    drawing.notes.append(evil)
    drawing.marks[0] = type(drawing.marks[0])(**{**vars(drawing.marks[0]), "name": evil})
    section = Section(evil, [evil], [drawing], [Table(evil, [evil], [[evil]], evil)])
    text = page(evil, [section], lead=[evil])
    assert "<b>" not in text
    assert text.count("</script>") == 2
    assert r"| </script><b>$x$ & \| |" in markdown("t", [section])


def test_a_page_refers_to_nothing_outside_itself() -> None:
    text = page("t", [Section("s", drawings=[curves(series_of(PROBLEM))])])
    links = set(re.findall(r"https?://[^\s\"'<]+", text))
    assert links == {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"}  # mere names
    assert set(re.findall(r"(?:src|href)=[\"'](.)", text)) <= {"#"}
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_a_folder_that_cannot_be_written_is_told_before_the_store_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    absent = ["--tracking-uri", f"sqlite:///{tmp_path}/mlflow.db"]
    for folder in (tmp_path / "file" / "out", Path("/proc/zotune/out")):
        said = report("mine", "-o", str(folder), *absent, code=2)
        assert said.startswith(f"zotune: cannot write to {folder}: ")
        assert said.endswith("; choose another with -o\n")


def test_a_launch_of_which_every_trial_failed_has_nothing_to_report(
    store: str, tmp_path: Path
) -> None:
    deliver(tmp_path / "spool", store, {1: 40}, status="FAILED", tags={"zotune.status": "failed"})
    said = report("delivered", "-o", str(tmp_path / "out"), "--tracking-uri", store, code=2)
    assert said == (
        "zotune: no trial of launch now of delivered finished, so there is nothing to report; "
        "name another with --launch\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_report_on_all_launches_names_those_that_have_nothing_and_has_the_others(
    store: str, tmp_path: Path
) -> None:
    deliver(tmp_path / "spool", store, {1: 40})
    failed = {"status": "FAILED", "tags": {"zotune.status": "failed"}}
    deliver(tmp_path / "other", store, {1: 40}, launch="broken", **failed)
    folder = tmp_path / "out"
    said = report("delivered", "--launch", "all", "-o", str(folder), "--tracking-uri", store)
    assert "left out: no trial of launch broken of delivered finished\n" in said
    assert set(pd.read_csv(folder / "table.csv")["launch"]) == {"now"}


def test_a_trial_whose_settings_changed_on_the_way_is_reported_with_those_of_its_end(
    store: str, tmp_path: Path
) -> None:
    spool = Spool(tmp_path, ABOUT | {"tracking_uri": store, "study": None})
    trial = {"trial": "t1", "time": 10**12}
    settings = {"problem": PROBLEM, "estimator": "avg", "budget": 40}
    for q, eta, spent in ((1, 2.0, 10), (8, 0.5, 20), (1, 0.25, 40)):  # as PBT moves a trial
        params = params_of(settings | {"q": q, "eta": eta})
        spool.append(trial | {"kind": STARTED, "name": "avg q=1", "params": params})
        spool.append(trial | {"kind": POINTS, "points": [[spent, {"loss": 1.0}]]})
    ended = {"status": "FINISHED", "step": 40, "final": {"loss": 1.0}, "tags": {}}
    spool.append(trial | {"kind": ENDED, **ended})
    spool.close()
    assert Delivery(tmp_path, store).advance()
    (launch,) = Store.open(store).read("delivered")
    assert [(one.config["q"], one.config["eta"]) for one in launch.trials] == [(1, 0.25)]
