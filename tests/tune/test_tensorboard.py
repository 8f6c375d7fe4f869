"""Stock loggers show the same curves: TensorBoard's event files are stepped by spent budget."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event

import zotune
from tests.instrument import INSTRUMENT
from tests.tune.conftest import Fit
from zotune.callbacks.event_files import EventFiles

CONFIG: dict[str, Any] = {
    **INSTRUMENT,
    "problem": {"name": "quadratic", "dim": 20},
    "estimator": "align",
    "q": 7,
    "budget": 400,
    "count": "evaluations",
    "replicates": 2,
    "report_every": 50,
}


def events(path: Path) -> Iterator[Event]:
    """The records of an event file: length, checksum, content, checksum."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        yield Event.FromString(data[at + 12 : at + 12 + size])
        at += size + 16


@pytest.mark.slow
def test_tensorboard_shows_the_rows_of_a_trial_against_what_it_has_spent(
    fit: Fit, tmp_path: Path
) -> None:
    (result,) = fit(zotune.ZOTrainable, CONFIG)
    (file,) = tmp_path.rglob("events.out.tfevents.*")
    scalars: dict[str, dict[int, float]] = {}
    for event in events(file):
        for value in event.summary.value:
            scalars.setdefault(value.tag, {})[event.step] = value.simple_value
    rows = result.metrics_dataframe
    assert len(rows) == 8
    assert rows["spent"].iloc[-1] == result.metrics["spent"] <= 400
    for key in ("loss", "best_loss", "gap", "loss_std", "evaluations"):
        expected = dict(zip(rows["spent"], rows[key], strict=True))
        assert scalars[f"ray/tune/{key}"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("installed", [False, True])
def test_a_study_writes_event_files_where_there_is_a_tensorboard_to_read_them(
    fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    found = (lambda name: object()) if installed else (lambda name: None)
    monkeypatch.setattr("zotune.callbacks.event_files.find_spec", found)
    (result,) = fit(zotune.ZOTrainable, CONFIG, callbacks=[EventFiles()])
    files = [*tmp_path.rglob("events.out.tfevents.*")]
    assert len(files) == installed
    steps = {event.step for file in files for event in events(file) if event.summary.value}
    assert steps == ({*result.metrics_dataframe["spent"]} if installed else set())
