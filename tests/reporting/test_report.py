"""``zotune report``: from a store to files that agree with it, also while a study runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import zotune
from tests.reporting.conftest import PROBLEM, STUDY, Recorded, series_of
from tests.servers import Server
from zotune.callbacks.records import ENDED, POINTS, STARTED, params_of
from zotune.callbacks.spool import Spool
from zotune.callbacks.stores import open_client
from zotune.callbacks.tracking import Delivery
from zotune.cli import main
from zotune.reporting.figures import curves
from zotune.reporting.page import Section, Table, markdown, page
from zotune.reporting.records import Store
from zotune.reporting.report import build


def report(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["report", *words])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(scope="module")
def written_report(
    recorded: Recorded, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The folder of a report of the newest launch, and what the command said."""
    folder = tmp_path_factory.mktemp("out")
    return folder, report("reported", "-o", str(folder), "--tracking-uri", recorded.uri)


def test_a_report_is_written_from_the_records_and_attached_to_the_launch(
    recorded: Recorded, written_report: tuple[Path, str]
) -> None:
    folder, said = written_report
    assert f"Launch {recorded.second}" in said
    assert f"report: {folder / 'report.html'}" in said
    assert recorded.first in said.splitlines()[-1]
    written = {path.name for path in folder.iterdir()}
    names = ("curves", "guarantee", "final", "best-step", "loss-by-step")
    figures = {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    assert written == {*figures, "curves.csv", "table.csv", "report.md", "report.html"}
    (launch,) = Store.open(recorded.uri).read("reported")
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
        alone = zotune.minimize(PROBLEM, budget=200, replicates=3, **settings)
        assert group["loss"].tolist() == pytest.approx(alone.curve["loss"].tolist(), rel=1e-12)
        (end,) = table.query("estimator == @chosen[0] and q == @chosen[1] and eta == @chosen[2]")[
            "gap"
        ]
        assert end == pytest.approx(alone.rows[-1]["gap"], rel=1e-12)
        assert end == pytest.approx(group["gap"].iloc[-1], rel=1e-12)


def test_two_launches_are_two_sections_and_the_report_is_not_attached(
    recorded: Recorded, tmp_path: Path
) -> None:
    words = ["-o", str(tmp_path), "--tracking-uri", recorded.uri, "--launch", "all"]
    told = json.loads(report("reported", *words, "--json"))
    assert [launch["id"] for launch in told["launches"]] == [recorded.first, recorded.second]
    assert [len(launch["trials"]) for launch in told["launches"]] == [1, 8]
    assert told["attached"] is False
    assert told["not_attached"] == "it is about several launches"
    titles = re.findall(r"^## (.*)$", (tmp_path / "report.md").read_text(), re.MULTILINE)
    assert titles == [f"launch {recorded.first}", f"launch {recorded.second}"]
    assert {"part1-curves.svg", "part2-curves.svg"} <= set(told["files"])


def test_a_study_that_still_runs_is_reported_as_far_as_it_is(store: str, tmp_path: Path) -> None:
    settings = {"problem": PROBLEM, "estimator": "avg", "budget": 200, "count": "directions"}
    about = {"launch_id": "now", "experiment": "running", "time": 10**12, "tracking_uri": store}
    spool = Spool(tmp_path / "spool", about)
    for q, points in ((1, 200), (10, 57)):
        rows = zotune.minimize(PROBLEM, estimator="avg", q=q, budget=200).rows
        reached = [[r["spent"], {"loss": r["loss"], "gap": r["gap"]}] for r in rows]
        trial = {"trial": f"t{q}", "time": 10**12}
        params = params_of(settings | {"q": q})
        spool.append(trial | {"kind": STARTED, "name": f"avg q={q}", "params": params})
        spool.append(trial | {"kind": POINTS, "points": [p for p in reached if p[0] <= points]})
        if points == 200:
            ended = {"status": "FINISHED", "step": 200, "final": reached[-1][1], "tags": {}}
            spool.append(trial | {"kind": ENDED, **ended})
    assert Delivery(tmp_path / "spool", store).advance()
    spool.close()
    said = report("running", "-o", str(tmp_path / "out"), "--tracking-uri", store)
    assert "2 trials, still running" in said
    assert "running: avg q=10 at 57 of 200" in said
    assert "not attached: the launch has no summary run yet" in said
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| avg q=10 | 57 | 200 | 28% |" in text
    assert "1 of 2 configurations have not spent their budget" in text


def test_a_report_comes_from_a_server_as_well(
    running_server: Server, tmp_path: Path, shared_ray: None
) -> None:
    uri = f"http://127.0.0.1:{running_server.port}"
    small: dict[str, Any] = STUDY | {"name": "served", "space": {"estimator": ["avg", "align"]}}
    zotune.Study(**small).run(storage_path=tmp_path, callbacks=[zotune.callbacks.MLflowCurves(uri)])
    said = report("served", "-o", str(tmp_path / "out"), "--tracking-uri", uri)
    assert "attached to the launch's summary run" in said
    (launch,) = Store.open(uri).read("served")
    assert launch.summary is not None
    found = open_client(uri).list_artifacts(launch.summary, "report")
    assert "report/report.html" in {file.path for file in found}


def test_bad_input_is_one_line_and_exit_code_2(recorded: Recorded, tmp_path: Path) -> None:
    words = ["nothing", "-o", str(tmp_path / "out"), "--tracking-uri", recorded.uri]
    assert report(*words, code=2).startswith("zotune: study 'nothing' is not known")
    assert not (tmp_path / "out").exists()


def test_the_same_records_make_the_same_files(
    recorded: Recorded, written_report: tuple[Path, str], tmp_path: Path
) -> None:
    build(Store.open(recorded.uri).read("reported")).write(tmp_path)
    for path in written_report[0].iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


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
