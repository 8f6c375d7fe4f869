"""Whatever others' trainables report and are configured with, their curves are delivered."""

from __future__ import annotations

import colorsys
import itertools
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Param, Run, RunData, RunInfo
from ray import tune

from tests.callbacks.conftest import history, runs
from tests.tune.conftest import Fit
from zotune.callbacks import MLflowCurves, sync
from zotune.callbacks.colours import colour, shades
from zotune.callbacks.delivery import deliver
from zotune.callbacks.spool import DELIVERED, Spool, read_json
from zotune.callbacks.tracking import Delivery


def spooled(folder: Path, store: str, params: dict[str, str], values: dict[str, float]) -> Path:
    """A launch with one trial, of one point, as the callback writes it down."""
    written(folder, store, params, values).close()
    return folder


def written(
    folder: Path, store: str, params: dict[str, str], values: dict[str, float], **more: Any
) -> Spool:
    """The same while its writer lives."""
    about = {"launch_id": "one", "experiment": "theirs", "tracking_uri": store, "time": 1000}
    spool = Spool(folder / "curves", about | more)
    trial = {"trial": "t1", "time": 2000}
    ended = {"status": "FINISHED", "step": 5, "final": values, "tags": {}}
    spool.append(
        {"kind": "started", "name": "theirs", "params": params, **trial},
        {"kind": "points", "points": [[5, values]], **trial},
        {"kind": "ended", **ended, **trial},
        {"kind": "closed", "time": 3000},
    )
    return spool


@pytest.mark.parametrize(
    ("params", "values"),
    [
        ({"lr": "1"}, {"gap": 0.5}),
        ({"budget": "1h"}, {"loss": 0.5}),
        ({"budget": "inf"}, {"score": 0.5}),
        ({"estimator": "rf", "q": "0.9"}, {"loss": 0.5}),
        ({"estimator": "rf", "q": "all"}, {"gap": -1.0, "loss": 0.0}),
    ],
)
def test_configurations_and_metrics_of_others_are_delivered_with_their_page(
    tmp_path: Path, store: str, params: dict[str, str], values: dict[str, float]
) -> None:
    (report,) = sync(spooled(tmp_path, store, params, values), seconds=0)
    assert (report.problem, report.is_complete, report.points) == ("", True, 1)
    (run,) = runs(store, "theirs").values()
    assert run.info.status == "FINISHED"
    assert run.data.params == params
    assert {key: history(store, run, key) for key in values} == {
        key: [(5, value)] for key, value in values.items()
    }
    assert read_json(tmp_path / "curves" / DELIVERED)["page"].startswith("/#/experiments/")
    (summary,) = runs(store, "theirs", "summary").values()
    assert summary.info.status == "FINISHED"


def test_the_load_of_the_machine_is_kept_with_the_summary_where_it_is_asked_for(
    tmp_path: Path, store: str
) -> None:
    pytest.importorskip("psutil", reason="psutil is not installed")
    spool = written(tmp_path, store, {"lr": "1"}, {"loss": 0.5}, system_metrics=True)
    assert deliver(Delivery(spool.folder, store), give_up=0, follow=True) == ""
    spool.close()
    (summary,) = runs(store, "theirs", "summary").values()
    assert "system/cpu_utilization_percentage" in summary.data.metrics
    assert summary.info.status == "FINISHED"
    (run,) = runs(store, "theirs").values()
    assert not [key for key in run.data.metrics if key.startswith("system/")]


@pytest.mark.slow
def test_a_page_that_cannot_be_made_is_noted_and_holds_nothing_else_up(
    fit: Fit, tmp_path: Path, store: str, caplog: pytest.LogCaptureFixture
) -> None:
    refuse_pages(store)
    fit(
        theirs,
        {"estimator": "rf", "q": 0.9},
        callbacks=[MLflowCurves(store, "theirs", wait=100_000)],
        metric="gap",
        reuse_actors=False,
    )
    assert "all curves are delivered; the prepared page is refused, so " in caplog.text
    assert "no pages here" in caplog.text
    (run,) = runs(store, "theirs").values()
    assert run.info.status == "FINISHED"
    assert history(store, run, "gap") == [(10, 1.0), (20, 0.5)]
    (summary,) = runs(store, "theirs", "summary").values()
    assert summary.info.status == "FINISHED"
    (report,) = sync(tmp_path / "experiment", seconds=0)
    assert (report.problem, report.is_complete, report.points) == ("", True, 0)


def theirs(config: dict[str, Any]) -> None:
    """A trainable that knows nothing of us, and has a metric and settings by our names."""
    for at in (1, 2):
        tune.report({"gap": 1 / at, "timesteps_total": 10 * at})


def refuse_pages(store: str) -> None:
    """Let the database refuse the tags of experiments, where pages are kept."""
    with closing(sqlite3.connect(store.removeprefix("sqlite:///"))) as database:
        database.execute(
            "CREATE TRIGGER refused BEFORE INSERT ON experiment_tags "
            "BEGIN SELECT RAISE(ABORT, 'no pages here'); END"
        )


@pytest.mark.parametrize("q", ["0", "-3", "0.9", "nan", "inf", "all", ""])
def test_only_a_number_of_queries_or_a_rule_has_a_colour(q: str) -> None:
    assert colour({"estimator": "avg", "q": q}) is None
    assert colour({"estimator": "avg", "q": "auto"}) is not None
    assert colour({"estimator": "avg", "q.rule": "growth"}) is not None
    assert colour({"estimator": "avg", "q": "10.0"}) == colour({"estimator": "avg", "q": "10"})


def coloured(*points: dict[str, str]) -> list[str]:
    """The colours that runs of these params have on a page of them all."""
    made = [
        Run(
            RunInfo(str(at), "0", "user", "FINISHED", 0, 1, "active"),
            RunData(params=[Param(key, value) for key, value in point.items()]),
        )
        for at, point in enumerate(points)
    ]
    return list(shades(made).values())


def hue_and_lightness(colour: str) -> tuple[float, float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    hue, light, _ = colorsys.rgb_to_hls(*parts)
    return 360 * hue, light


def test_estimator_q_update_and_step_have_colours_of_their_own() -> None:
    axes = {"estimator": ("avg", "align"), "q": ("1", "2", "4"), "update": ("adam", "sgd")}
    axes |= {"eta": ("0.5", "1", "2")}
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    assert len(set(coloured(*points))) == len(points) == 36


def test_neighbouring_q_are_hues_apart_and_a_larger_step_is_darker() -> None:
    sizes = coloured(*({"estimator": "align", "q": str(q)} for q in (1, 2, 4)))
    hues = [hue_and_lightness(told)[0] for told in sizes]
    assert min(hues[1] - hues[0], hues[2] - hues[1]) > 30
    etas = ("0.002", "0.0005", "0.01")
    steps = coloured(*({"estimator": "align", "q": "4", "eta": eta} for eta in etas))
    lights = [hue_and_lightness(told)[1] for told in steps]
    assert lights[1] > lights[0] + 0.1 > lights[2] + 0.2


def test_whatever_differs_has_colours_of_its_own_and_replicates_share_one() -> None:
    same = {"estimator": "align", "q": "4", "eta": "1"}
    told = coloured(*(same | {"problem.l2": l2} for l2 in ("0.1", "0.01", "1.0")))
    assert len(set(told)) == 3
    assert len(set(coloured(*(same | {"replicate": at} for at in "123")))) == 1
    rates = [{"lr": f"{at / 100}", "width": "8", "seed": f"{at}"} for at in range(50)]
    assert len(set(coloured(*rates))) == 50
    assert len(set(coloured(*({"lr": "1", "act": name} for name in ("relu", "tanh"))))) == 2
    assert coloured({"lr": "1"}, {"lr": "1"}) == []
