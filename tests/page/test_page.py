"""The prepared MLflow page, seen in a real browser."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from mlflow.entities import Metric, Run, RunData, RunInfo, RunTag

from tests.browser import keep_picture, wait_until
from tests.instrument import plain_study
from tests.servers import PATIENCE, Server
from zotune.callbacks import page as page_module
from zotune.callbacks.charts import Contents, view_state
from zotune.callbacks.page import contents_of, plain_path, prepare_page, trial_runs
from zotune.callbacks.serving import page_of
from zotune.callbacks.stores import open_client
from zotune.cli import main
from zotune.core.names import LAUNCH_TAG
from zotune.errors import ConfigError

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

STUDY: dict[str, Any] = {
    "name": "looked-at",
    "problem": {"name": "quadratic", "dim": 40},
    "budget": 800,
    "replicates": 3,
    "space": {"estimator": ["avg", "align"], "q": [1, 40]},
}
NAMES = ["align q=1", "align q=40", "avg q=1", "avg q=40"]
CHARTS = """return Array.from(document.querySelectorAll('.js-plotly-plot'))
    .filter(plot => plot.data && plot.data.length)
    .map(plot => ({
        names: plot.data.map(trace => trace.name),
        kinds: plot.data.map(trace => trace.type),
        x: plot.layout.xaxis && plot.layout.xaxis.range,
        y: plot.layout.yaxis && plot.layout.yaxis.type,
        last: plot.data.map(trace => trace.x && trace.x[trace.x.length - 1]),
    }))"""


@pytest.fixture(scope="module")
def printed_page(
    shared_ray: None, running_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The address that ``zotune run`` prints at its end."""
    folder = tmp_path_factory.mktemp("looked-at")
    path = folder / "study.yaml"
    path.write_text(plain_study(**STUDY).to_yaml())
    server = f"http://127.0.0.1:{running_server.port}"
    words = ["run", str(path), "--storage", str(folder / "out"), "--tracking-uri", server]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    found = re.search(r"^page: (\S+)$", done.output, re.MULTILINE)
    assert found is not None, done.output
    return found[1]


def charts(browser: Chrome, number: int) -> list[dict[str, Any]]:
    """What the page's charts hold, as soon as there are so many."""

    def drawn(page: Any) -> Any:
        found = page.execute_script(CHARTS)
        return found if len(found) >= number else None

    found: list[dict[str, Any]] = wait_until(browser, drawn)
    return found


@pytest.mark.slow
def test_the_printed_page_shows_named_curves_up_to_the_budget_in_groups(
    printed_page: str, browser: Chrome
) -> None:
    browser.get(printed_page)
    curves, _, bars, timed = charts(browser, 4)[:4]
    assert sorted(set(curves["names"])) == NAMES
    assert set(curves["last"]) == {800}
    assert (curves["x"], curves["y"]) == ([0, 800], "log")
    assert set(bars["kinds"]) == {"bar"}
    assert sorted(set(timed["names"])) == NAMES
    assert max(timed["last"]) < 800  # seconds, not evaluations
    text = browser.find_element("tag name", "body").text
    assert "Group: " not in text
    assert [name for name in NAMES if name not in text] == []
    assert "4 matching runs" in text
    assert [
        s for s in ("Curves", "Final values", "Wall time", "Search space") if s not in text
    ] == []
    keep_picture(browser, "mlflow-page")


@pytest.mark.slow
def test_the_plain_address_shows_the_runs_of_the_launch(
    printed_page: str, running_server: Server, browser: Chrome
) -> None:
    client = open_client(f"http://127.0.0.1:{running_server.port}")
    found = re.search(r"(http.*)/#/experiments/(\d+)/", printed_page)
    assert found is not None
    server, experiment = found.groups()
    (launch,) = {run.data.tags[LAUNCH_TAG] for run in trial_runs(client, [experiment])}
    browser.get(server + plain_path([experiment], [launch]))
    wait_until(browser, lambda _: "4 matching runs" in shown(browser))


def shown(browser: Chrome) -> str:
    """The text that a page shows."""
    return str(browser.find_element("tag name", "body").text)


@pytest.mark.long
def test_launches_of_two_studies_stand_side_by_side(
    shared_ray: None, running_server: Server, printed_page: str, browser: Chrome, tmp_path: Path
) -> None:
    uri = f"http://127.0.0.1:{running_server.port}"
    other = plain_study(**STUDY | {"name": "beside", "fixed": {"difference": "central"}})
    other.run(tracking_uri=uri, storage_path=tmp_path)
    _, page = page_of(["looked-at", "beside"], uri)
    browser.get(uri + page.path)
    (curves, *_) = charts(browser, 3)
    assert sorted(curves["names"]) == sorted(2 * 2 * NAMES)  # a line and its points, twice each
    assert "8 matching runs" in browser.find_element("tag name", "body").text


@pytest.mark.slow
def test_ui_serves_the_page_on_loopback_until_it_is_ended(store: str, tmp_path: Path) -> None:
    client = open_client(store)
    experiment = client.create_experiment("mine", str(tmp_path))
    tags = {"zotune.kind": "trial", "zotune.launch_id": "first"}
    run = client.create_run(experiment, tags=tags, run_name="align q=3").info.run_id
    client.log_metric(run, "loss", 2.0, step=5)
    for loss in (1.0, 9.0):
        logged(client, experiment, "first", 0, 2.0, loss)
    program = [sys.executable, "-m", "zotune.cli", "ui", "mine", "--tracking-uri", store]
    process = subprocess.Popen(
        [*program, "--no-open"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(r"page: (http://127\.0\.0\.1:\d+)/#/experiments/", line)
        assert found is not None, line + str(process.communicate())
        assert process.stdout.readline().startswith(
            "1 of 3 runs diverged or ends above its start, hidden here"
        )
        port = found[1].rpartition(":")[2]
        listening = Path("/proc/net/tcp").read_text()
        assert f"0100007F:{int(port):04X}" in listening
        assert f"00000000:{int(port):04X}" not in listening
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    with pytest.raises(OSError, match="refused"), _connection(int(port)):
        pass


def _connection(port: int) -> Any:
    import socket

    return socket.create_connection(("127.0.0.1", port), timeout=2)


def test_a_page_without_a_store_or_a_study_is_refused_by_name(store: str, tmp_path: Path) -> None:
    missing = tmp_path / "no.db"
    with pytest.raises(ConfigError, match=f"no MLflow store at {missing}; run a study here first"):
        page_of([], f"sqlite:///{missing}")
    assert not missing.exists()
    with pytest.raises(ConfigError, match="no launch of a study is in sqlite:"):
        page_of([], store)
    client = open_client(store)
    experiment = client.create_experiment("mine", str(tmp_path))
    tags = {"zotune.kind": "trial", "zotune.launch_id": "first"}
    client.create_run(experiment, tags=tags)
    with pytest.raises(ConfigError, match=r"'mino' is in the store \(did you mean 'mine'\?\)"):
        page_of(["mino"], store)
    with pytest.raises(ConfigError, match="launch 'second' is not of mine; known: first"):
        page_of(["mine"], store, ["second"])


def test_the_page_of_several_studies_is_kept_by_each_for_the_one_that_is_loaded_first(
    store: str, tmp_path: Path
) -> None:
    client = open_client(store)
    experiments = [client.create_experiment(name, str(tmp_path)) for name in ("one", "two")]
    for experiment in experiments:
        tags = {"zotune.kind": "trial", "zotune.launch_id": f"of-{experiment}"}
        client.create_run(experiment, tags=tags)
    page = prepare_page(client, experiments, [f"of-{experiment}" for experiment in experiments])
    found = re.search("viewStateShareKey=([^&]+)", page.path)
    assert found is not None
    for experiment in experiments:
        state = client.get_experiment(experiment).tags[f"mlflow.sharedViewState.{found[1]}"]
        assert "attributes.run_id IN" in state


def logged(client: Any, experiment: str, launch: str, seed: int, *losses: float) -> str:
    """A run of a launch on a problem, with the losses of its curve; the last one is its end."""
    tags = {"zotune.kind": "trial", "zotune.launch_id": launch}
    run: str = client.create_run(experiment, tags=tags).info.run_id
    client.log_param(run, "problem.seed", seed)
    for step, loss in enumerate(losses):
        client.log_metric(run, "loss", loss, step=step)
    client.log_metric(run, "final_loss", losses[-1], step=len(losses))
    return run


def found_by(client: Any, experiment: str, key: str = "mlflow.sharedViewState") -> set[str]:
    """Runs that the search of the prepared page finds."""
    tags = client.get_experiment(experiment).tags
    (state,) = (json.loads(text) for name, text in tags.items() if name.startswith(key))
    found = client.search_runs([experiment], state["searchFilter"])
    return {run.info.run_id for run in found}


def test_runs_are_hidden_by_the_start_of_their_own_launch_and_problem(
    store: str, tmp_path: Path
) -> None:
    client = open_client(store)
    experiment = client.create_experiment("mine", str(tmp_path))
    low = logged(client, experiment, "one", 0, 7.0, 3.0)
    lost = logged(client, experiment, "one", 0, 7.0, 1e30)
    high = logged(client, experiment, "two", 1, 900.0, 500.0)
    also_lost = logged(client, experiment, "two", 1, 900.0, 901.0)
    other_problem = logged(client, experiment, "two", 2, 5000.0, 4000.0)
    page = prepare_page(client, [experiment], ["one", "two"])
    assert found_by(client, experiment) == {low, high, other_problem}
    assert (
        page.notice
        == "2 of 5 runs diverged or end above their start, hidden here; zotune ui --all shows them"
    )
    (state,) = client.get_experiment(experiment).tags.values()
    assert "Curves (2 of 5 runs hidden; " in state
    assert {lost, also_lost}.isdisjoint(found_by(client, experiment))


def test_what_a_run_ended_with_decides_and_not_the_last_point_of_its_curve(
    store: str, tmp_path: Path
) -> None:
    client = open_client(store)
    experiment = client.create_experiment("mine", str(tmp_path))
    low = logged(client, experiment, "first", 0, 7.0, 3.0)
    good = logged(client, experiment, "first", 0, 7.0, 8.0)
    client.log_metric(good, "final_loss", 2.0, step=5)
    bad = logged(client, experiment, "first", 0, 7.0, 3.0)
    client.log_metric(bad, "final_loss", 9.0, step=5)
    page = prepare_page(client, [experiment], ["first"])
    later = logged(client, experiment, "first", 0, 7.0, 5.0)
    assert found_by(client, experiment) == {low, good, later}
    assert (
        page.notice
        == "1 of 3 runs diverged or ends above its start, hidden here; zotune ui --all shows it"
    )


def test_nothing_is_hidden_where_all_runs_end_above_their_start_or_all_are_asked_for(
    store: str, tmp_path: Path
) -> None:
    client = open_client(store)
    experiment = client.create_experiment("mine", str(tmp_path))
    runs = {logged(client, experiment, "first", 0, 2.0, loss) for loss in (3.0, 1e30)}
    assert prepare_page(client, [experiment], ["first"]).notice == ""
    assert found_by(client, experiment) == runs
    runs |= {logged(client, experiment, "first", 0, 2.0, 1.0)}
    hiding = prepare_page(client, [experiment], ["first"])
    showing = prepare_page(client, [experiment], ["first"], shows_all=True)
    assert (bool(hiding.notice), showing.notice) == (True, "")
    assert hiding.path != showing.path
    key = re.search("viewStateShareKey=([^&]+)", showing.path)
    assert key is not None
    assert found_by(client, experiment, f"mlflow.sharedViewState.{key[1]}") == runs


def test_of_many_runs_the_best_of_each_launch_are_shown_and_all_where_all_are_asked_for(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "MOST_SHOWN", 4)
    client = open_client(store)
    experiment = client.create_experiment("mine", str(tmp_path))
    one = [logged(client, experiment, "one", 0, 7.0, loss) for loss in (3.0, 1.0, 2.0, 9.0)]
    two = [logged(client, experiment, "two", 0, 7.0, loss) for loss in (6.0, 5.0, 4.0)]
    page = prepare_page(client, [experiment], ["one", "two"])
    assert found_by(client, experiment) == {one[1], one[2], two[1], two[2]}
    assert page.notice == "the best 4 of 7 runs; zotune ui --all shows all"
    everything = prepare_page(client, [experiment], ["one", "two"], shows_all=True)
    key = re.search("viewStateShareKey=([^&]+)", everything.path)
    assert key is not None
    assert found_by(client, experiment, f"mlflow.sharedViewState.{key[1]}") == {*one, *two}


def test_a_page_of_several_launches_groups_by_launch_and_names_its_runs() -> None:
    launches = {"one": ["a"], "two": ["b"]}
    contents = Contents(["loss"], set(), ["estimator", "q", "replicate"], 10, launches)
    state = view_state(contents)
    assert state["searchFilter"] == "attributes.run_id IN ('a', 'b')"
    assert groups(state) == ["estimator", "q", "zotune.launch_id"]
    assert "tags.`zotune.launch_id`" in state["selectedColumns"]
    assert state["compareRunCharts"][0]["scaleType"] == "linear"
    assert groups(view_state(replace(contents, named_groups=True))) == ["zotune.group_of_launch"]


def test_runs_that_are_no_replicates_are_in_no_groups_so_that_the_best_is_first() -> None:
    contents = Contents(["loss"], set(), ["estimator", "q"], 10, {"one": ["a"]}, named_groups=True)
    assert view_state(contents)["groupBy"] is None


@pytest.mark.usefixtures("shared_ray")
def test_groups_of_several_launches_begin_with_what_tells_launches_apart(
    store: str, tmp_path: Path
) -> None:
    """The page cuts off what is long, and estimator and q stand in the names of the runs, too."""
    study = plain_study(**STUDY | {"budget": 80, "space": {"q": [1, 40]}})
    study.run(tracking_uri=store, storage_path=tmp_path)
    client = open_client(store)
    (experiment,) = client.search_experiments(filter_string="name = 'looked-at'")
    tags = [run.data.tags for run in trial_runs(client, [experiment.experiment_id])]
    assert len(tags) == 2
    for tag in tags:
        told = f"{tag[LAUNCH_TAG][-4:]} {tag['zotune.group']}"
        assert tag["zotune.group_of_launch"] == told


def groups(state: dict[str, Any]) -> list[str]:
    """What a page groups its runs by."""
    return [key["groupByData"] for key in state["groupBy"]["groupByKeys"]]


def test_a_searched_step_has_a_logarithmic_axis_where_every_run_has_the_logarithm() -> None:
    contents = Contents(["loss"], set(), ["estimator", "q", "eta"], 10, {"one": ["a"]})
    assert parallel(contents) == (["estimator", "q", "eta"], ["final_loss"])
    assert parallel(replace(contents, log_eta=True)) == (
        ["estimator", "q"],
        ["final_log10_eta", "final_loss"],
    )


def test_runs_that_were_timed_have_a_chart_over_wall_time() -> None:
    contents = Contents(["gap", "loss"], {"gap"}, ["estimator", "q"], 10, {"one": ["a"]})
    assert not over_time(contents)
    (chart,) = over_time(replace(contents, timed=True))
    assert (chart["metricKey"], chart["xAxisKey"]) == ("gap", "metric")
    assert "range" not in chart
    assert not over_time(replace(contents, timed=True, searched=["q", "replicate"]))


def recorded(**last: float) -> Run:
    """A run of a trial with the last values of its curves."""
    metrics = [Metric(key, value, 0, 10) for key, value in last.items()]
    tags = [RunTag(LAUNCH_TAG, "one")]
    info = RunInfo("a", "0", "me", "FINISHED", 0, 0, "active")
    return Run(info, RunData(metrics, [], tags))


def test_metrics_of_the_user_s_have_charts_after_the_loss() -> None:
    """By their range, on a logarithmic axis or a linear one; counters and the machine have none."""
    about = {"steps": 10, "monitored": 3, "final_error": 0.1, "system/cpu": 90}
    runs = [recorded(loss=1, error=error, angle=30, **about) for error in (0.1, 1e-5)]
    contents = contents_of(runs)
    assert contents.curves == ["loss", "angle", "error"]
    assert contents.positive == {"loss", "error"}
    assert contents.final == "final_loss"


def test_a_page_of_means_has_no_section_that_would_be_empty() -> None:
    contents = Contents(["loss"], set(), ["q", "replicate"], 10, {"one": ["a"]}, timed=True)
    state = view_state(contents)
    filled = {chart["metricSectionId"] for chart in state["compareRunCharts"]}
    shown = {part["uuid"] for part in state["compareRunSections"] if part["display"]}
    assert shown == filled == {"zotune-curves", "zotune-final-values"}


def over_time(contents: Contents) -> list[dict[str, Any]]:
    """Charts whose axis is the metric ``seconds``."""
    charts = view_state(contents)["compareRunCharts"]
    return [chart for chart in charts if chart.get("selectedXAxisMetricKey") == "seconds"]


def parallel(contents: Contents) -> tuple[list[str], list[str]]:
    """Params and metrics that are axes of the parallel coordinates."""
    (chart,) = (c for c in view_state(contents)["compareRunCharts"] if c["type"] == "PARALLEL")
    return chart["selectedParams"], chart["selectedMetrics"]


def test_a_version_of_mlflow_that_was_never_tried_is_named_with_the_address_of_its_own_page(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_client(store)
    experiment = client.create_experiment("mine", str(tmp_path))
    logged(client, experiment, "first", 0, 2.0, 1.0)
    assert prepare_page(client, [experiment], ["first"]).problem == ""
    monkeypatch.setattr(page_module, "TRIED", ((2, 0), (2, 1)))
    page = prepare_page(client, [experiment], ["first"])
    assert "viewStateShareKey" in page.path
    assert page.problem.startswith("prepared pages were tried with MLflow 2.0 to 2.1, and this is")
    assert f"open /#/experiments/{experiment}/runs?searchFilter=tags" in page.problem
