"""The page of other people's trainables: what their Tuner optimises, the best run first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import keep_picture, wait_until
from tests.page.test_page import charts, shown
from tests.servers import Server
from zotune.callbacks.charts import view_state
from zotune.callbacks.page import contents_of, prepare_page, trial_runs
from zotune.callbacks.stores import open_client

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

NAMES = """return Array.from(document.querySelectorAll('[role=row]'))
    .map(row => row.innerText.trim()).filter(text => text.includes('l2='))"""
"""The rows of the table of runs, from its top."""


def launch(uri: str, experiment: str, values: dict[str, float], mode: str = "max") -> Any:
    """A launch that tunes ``val_acc``, with an epoch counter; the client and the experiment."""
    client = open_client(uri)
    place = client.create_experiment(experiment)
    tags = {"zotune.kind": "trial", "zotune.launch_id": experiment, "zotune.status": "finished"}
    tags |= {"zotune.metric": "val_acc", "zotune.mode": mode}
    for l2, value in values.items():
        run = client.create_run(place, tags=tags, run_name=f"l2={l2}").info.run_id
        client.log_param(run, "l2", l2)
        for epoch in range(1, 6):
            client.log_metric(run, "n", epoch, step=epoch)
            client.log_metric(run, "val_acc", value * epoch / 5, step=epoch)
        client.log_metric(run, "final_val_acc", value, step=5)
        client.log_metric(run, "final_n", 5, step=5)
        client.set_terminated(run)
    return client, place


def test_what_decides_has_the_first_chart_the_order_and_the_bars(store: str) -> None:
    client, place = launch(store, "theirs", {"0.1": 0.5, "0.01": 0.9})
    state = view_state(contents_of(trial_runs(client, [place], "theirs")))
    order = state["orderByKey"], state["orderByAsc"]
    assert order == ("metrics.`final_val_acc`", False)
    kinds = [(chart["type"], chart.get("metricKey")) for chart in state["compareRunCharts"]]
    assert kinds[0] == ("LINE", "val_acc")
    assert ("BAR", "final_val_acc") in kinds
    prepare_page(client, [place], ["theirs"])
    colours = {run.data.tags["mlflow.runColor"] for run in trial_runs(client, [place], "theirs")}
    assert len(colours) == 2


@pytest.mark.slow
def test_the_best_run_is_the_first_row_and_what_differs_is_legible(
    running_server: Server, browser: Chrome
) -> None:
    uri = f"http://127.0.0.1:{running_server.port}"
    values = {f"{10.0**-at:g}": 0.9 - 0.1 * abs(at - 3) for at in range(1, 7)}
    client, place = launch(uri, "theirs-to-see", values)
    page = prepare_page(client, [place], ["theirs-to-see"])
    browser.get(uri + page.path)
    first, *_ = charts(browser, 3)
    assert sorted(set(first["names"])) == sorted(f"l2={l2}" for l2 in values)
    rows = wait_until(browser, lambda page: page.execute_script(NAMES))
    assert rows[0].splitlines()[-1] == "l2=0.001"
    assert "6 matching runs" in shown(browser)
    keep_picture(browser, "others-page")
