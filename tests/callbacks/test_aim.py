"""The metric that a Tuner optimises decides best, order, report and divergence; nothing else."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.basic_variant import BasicVariantGenerator

from tests.callbacks.conftest import history, runs
from tests.tune.conftest import Fit
from zotune.callbacks import MLflowCurves
from zotune.callbacks.stores import open_client
from zotune.cli import main
from zotune.errors import ConfigError

FINALS = {1.0: 0.583, 2.0: 0.083, 3.0: 0.9}
"""The final validation loss by learning rate."""


def trained(config: dict[str, Any]) -> None:
    """A stock function: an epoch counter, the tuned metric, and a side metric with a NaN."""
    for epoch in range(1, 5):
        final = FINALS[config["lr"]]
        side = math.nan if (config["lr"], epoch) == (2.0, 2) else 1 / epoch
        row = {"n": epoch, "val_loss": final + (4 - epoch), "val_acc": 1 - final, "norm": side}
        tune.report(row | {"seconds_left": 10.0 - epoch})


SPACE = {"lr": tune.grid_search([1.0, 2.0, 3.0]), "width": 8}


@pytest.fixture
def one_after_the_other() -> dict[str, Any]:
    """Options of a Tuner that has no metric of its own."""
    search = BasicVariantGenerator(random_state=0, max_concurrent=1)
    return {"metric": None, "mode": None, "search_alg": search}


@pytest.fixture
def trained_by_loss(fit: Fit, store: str) -> str:
    """A store with a launch whose Tuner minimises ``val_loss``."""
    callbacks: list[tune.Callback] = [MLflowCurves(store, "theirs")]
    fit(trained, SPACE, callbacks=callbacks, metric="val_loss", mode="min")
    return store


def note(store: str) -> str:
    (summary,) = runs(store, "theirs", "summary").values()
    return summary.data.tags["mlflow.note.content"]


def page(store: str) -> dict[str, Any]:
    """The prepared page of the experiment."""
    found = open_client(store).get_experiment_by_name("theirs")
    assert found is not None
    (state,) = (text for key, text in found.tags.items() if "sharedViewState" in key)
    loaded: dict[str, Any] = json.loads(state)
    return loaded


def first_on(store: str) -> str:
    """The name of the run that the page shows first."""
    client, state = open_client(store), page(store)
    found = client.get_experiment_by_name("theirs")
    assert found is not None
    order = f"{state['orderByKey']} {'ASC' if state['orderByAsc'] else 'DESC'}"
    shown = client.search_runs([found.experiment_id], state["searchFilter"], order_by=[order])
    return str(shown[0].info.run_name)


def test_the_tuner_s_metric_decides_summary_page_and_report(
    trained_by_loss: str, tmp_path: Path
) -> None:
    store = trained_by_loss
    words = {run.data.tags["zotune.status"] for run in runs(store, "theirs").values()}
    assert words == {"finished"}  # a NaN beside the metric is no divergence
    assert "Lowest val_loss: **lr=2** with 0.083." in note(store)
    assert "| name | status | spent | val_loss |" in note(store)
    run = runs(store, "theirs")["lr=2"]
    assert [step for step, _ in history(store, run, "val_loss")] == [1, 2, 3, 4]
    assert [step for step, _ in history(store, run, "norm")] == [1, 3, 4]
    state = page(store)
    assert (state["orderByKey"], state["orderByAsc"]) == ("metrics.`final_val_loss`", True)
    assert state["compareRunCharts"][0]["metricKey"] == "val_loss"
    assert first_on(store) == "lr=2"
    words_ = ["report", "theirs", "--tracking-uri", store, "-o", str(tmp_path / "report")]
    done = CliRunner().invoke(main, words_)
    assert done.exit_code == 0, done.output
    assert "Lowest final val_loss, 0.083, of lr=2; highest, 0.9, of lr=3." in done.output
    text = (tmp_path / "report" / "report.md").read_text()
    (row,) = (line for line in text.splitlines() if line.endswith("| best |"))
    assert row.startswith("| 2 | 0.083 |")
    table = (tmp_path / "report" / "table.csv").read_text().splitlines()
    assert next(line for line in table if line.endswith("True")).split(",")[1] == "2.0"


@pytest.mark.slow
def test_a_run_that_lost_the_metric_itself_has_diverged_and_comes_last(
    fit: Fit, store: str
) -> None:
    def lost(config: dict[str, Any]) -> None:
        for at in (1, 2):
            tune.report(
                {"score": math.nan if (config["lr"], at) == (1.0, 2) else at * config["lr"]}
            )

    callbacks: list[tune.Callback] = [MLflowCurves(store, "theirs")]
    space = {"lr": tune.grid_search([1.0, 2.0])}
    fit(lost, space, callbacks=callbacks, metric="score", mode="max")
    words = {name: run.data.tags["zotune.status"] for name, run in runs(store, "theirs").items()}
    assert words == {"lr=1": "diverged", "lr=2": "finished"}
    assert "Highest score: **lr=2** with 4." in note(store)
    assert first_on(store) == "lr=2"


@pytest.mark.slow
def test_the_metric_of_a_scheduler_counts_and_what_the_callback_is_given_comes_first(
    fit: Fit, store: str, one_after_the_other: dict[str, Any]
) -> None:
    cuts = ASHAScheduler(metric="val_acc", mode="max", max_t=4, grace_period=4)
    callbacks: list[tune.Callback] = [MLflowCurves(store, "theirs")]
    fit(trained, SPACE, callbacks=callbacks, scheduler=cuts, **one_after_the_other)
    assert "Highest val_acc: **lr=2** with 0.917." in note(store)
    assert (page(store)["orderByKey"], page(store)["orderByAsc"]) == (
        "metrics.`final_val_acc`",
        False,
    )


@pytest.mark.slow
def test_what_the_callback_is_given_comes_before_the_tuner_s(fit: Fit, store: str) -> None:
    callbacks: list[tune.Callback] = [MLflowCurves(store, "theirs", metric="norm", mode="max")]
    fit(trained, SPACE, callbacks=callbacks, metric="val_loss", mode="min")
    assert "Highest norm: " in note(store)


@pytest.mark.slow
def test_without_a_metric_no_run_is_called_the_best(
    fit: Fit, store: str, one_after_the_other: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    callbacks: list[tune.Callback] = [MLflowCurves(store, "theirs")]
    fit(trained, SPACE, callbacks=callbacks, **one_after_the_other)
    assert "No trial has ended with a loss, by which the best is chosen." in note(store)
    assert page(store)["orderByKey"] == "attributes.start_time"
    assert "MLflowCurves(metric=…, mode=…)" in caplog.text


@pytest.mark.parametrize(("metric", "mode"), [("loss", None), (None, "min"), ("loss", "low")])
def test_metric_and_mode_belong_together(metric: str | None, mode: str | None) -> None:
    said = re.escape("metric and mode belong together: the name of a metric and 'min' or 'max'")
    with pytest.raises(ConfigError, match=said):
        MLflowCurves(metric=metric, mode=mode)
