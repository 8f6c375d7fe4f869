"""The trainable with a model: rows, checkpoints, resets; no Tuner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import zotune
from tests.instrument import minimize
from tests.weights.models import bits
from tests.weights.toy import Toy, settings
from zotune.core.names import CURVE_KEY
from zotune.errors import ConfigError
from zotune.loop import Loop
from zotune.tune.trainables import ZOTrainable


@pytest.fixture(autouse=True)
def working_directories_are_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(tmp_path))


def finish(trial: ZOTrainable) -> list[dict[str, Any]]:
    rows = [trial.train()]
    while not rows[-1]["done"]:
        rows.append(trial.train())
    kept = ("spent", "loss", "best_loss", "train_loss", "unmoved", "status", "timesteps_total")
    return [{key: row[key] for key in kept} for row in rows]


def weights(trial: ZOTrainable) -> bytes:
    return bits(trial._loop.objective)


def test_a_trial_spends_its_budget_and_tells_its_curve() -> None:
    trial = zotune.trainable(Toy(), name="toy-curve")(settings(curve=True, report_every=10))
    rows, points = [], []
    while not rows or not rows[-1]["done"]:
        rows.append(trial.train())
        points += rows[-1].pop(CURVE_KEY)
    assert isinstance(trial._loop, Loop)
    assert rows[-1]["status"] == "exhausted"
    assert [point["spent"] for point in points] == list(range(31))
    assert points[-1]["loss"] == rows[-1]["loss"]


def test_a_trial_continues_from_its_checkpoint(tmp_path: Path) -> None:
    bound = zotune.trainable(Toy(), name="toy-resume")
    whole, broken = bound(settings(report_every=9)), bound(settings(report_every=9))
    expected = finish(whole)
    broken.train()
    broken.train()
    broken.save_checkpoint(str(tmp_path))
    resumed = bound(settings(report_every=9))
    resumed.load_checkpoint(str(tmp_path))
    assert finish(resumed) == expected[2:]
    assert weights(resumed) == weights(whole)
    run = zotune.load_run(tmp_path)
    assert run.rows[-1]["spent"] == 17


def test_a_trial_goes_on_from_another_configuration(tmp_path: Path) -> None:
    bound = zotune.trainable(Toy(), name="toy-exploit")
    donor = bound(settings(report_every=9))
    donor.train()
    donor.save_checkpoint(str(tmp_path))
    taker = bound(settings(report_every=9, estimator="align", q=5, eta=0.1, momentum=0.5))
    taker.load_checkpoint(str(tmp_path))
    assert finish(taker)[-1]["spent"] == 30
    (tmp_path / "end").mkdir()
    taker.save_checkpoint(str(tmp_path / "end"))
    assert [file.name for file in (tmp_path / "end").iterdir()] == ["state.safetensors"]


def test_an_actor_that_is_used_again_starts_from_the_start_weights() -> None:
    made = Toy()
    before = bits(made)
    for target in (made, zotune.factory(lambda data: Toy())):
        trial = zotune.trainable(target)(settings())
        first = finish(trial)
        trial.reset_config(settings(eta=1e-2))
        other = finish(trial)
        trial.reset_config(settings())
        assert finish(trial) == first != other
    assert bits(made) == before


def test_rows_of_replicates_are_refused_with_the_way_to_have_them() -> None:
    with pytest.raises(ConfigError, match="replicates_as: trials"):
        zotune.trainable(Toy(), name="toy-rows")(settings(replicates=3))


def test_settings_for_weights_are_not_ignored_by_other_problems() -> None:
    with pytest.raises(ConfigError, match="memory is a setting for the weights of a model"):
        minimize({"name": "quadratic", "dim": 3}, budget=4, memory="lean")


def test_a_trial_leaves_the_global_generator_alone() -> None:
    trial = zotune.trainable(Toy(), name="toy-global")(settings())
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    finish(trial)
    assert torch.equal(torch.rand(1), expected)
