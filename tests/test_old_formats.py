"""What zotune wrote before its files said all that they hold is read, and continued, as it was."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import zotune
from tests.fixtures.functions import bowl
from tests.weights.toy import Toy
from zotune.config import Config, parse_config
from zotune.core.names import SCALARS_FILE, STATE_FILE
from zotune.errors import CheckpointError
from zotune.loop import Loop
from zotune.objectives import PROBLEMS
from zotune.runs.checkpoint import load_loop, read, save_loop
from zotune.runs.old_defaults import DEFAULTS_1, PROBLEM_DEFAULTS_1
from zotune.runs.run import Run
from zotune.weights.scalars import ScalarLog, rebuild

FORMAT_1 = Path(__file__).parent / "fixtures" / "format1"
DIAGNOSTICS = ("snr",)
"""Quotients of rounding errors, which no two processors share."""
VECTORS = ("quadratic", "diagnostics", "estimated", "stochastic")
WEIGHTS = ("weights", "momentum")
PYTHON = (3, 11)
"""With which the fixtures were written; the code of a function is part of its checkpoint."""


@dataclass(frozen=True)
class Closeness:
    """How close a continued run must come to a whole one.

    Where sums round as they did when the fixtures were written, to the last digits. Elsewhere the
    two halves of the continued run differ in their last digits, which differences over mu magnify
    from step to step; so the first half is looked at first.
    """

    same: bool

    @classmethod
    def of(cls, rows: list[dict[str, Any]], name: str) -> Closeness:
        """From the rows of a whole run of today, and those of the first half of then."""
        then = [row["loss"] for row in known(name)["rows"]]
        return cls([row["loss"] for row in rows[: len(then)]] == then)

    @property
    def rows(self) -> float:
        """Of a row's values, relative."""
        return 1e-6 if self.same else 1e-2

    def check(self, one: Tensor, other: Tensor) -> None:
        """Refuse tensors that are farther apart."""
        rtol, atol = (1e-9, 1e-12) if self.same else (1e-2, 1e-3)
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol, equal_nan=True)


def known(name: str) -> dict[str, Any]:
    """What the old code has read from its own file."""
    found: dict[str, Any] = json.loads((FORMAT_1 / name / "run.json").read_text())
    return found


def config_of(name: str) -> dict[str, Any]:
    config: dict[str, Any] = read(FORMAT_1 / name / STATE_FILE)[0]["notes"]["config"]
    return config


def assert_same_rows(
    found: list[dict[str, Any]], wanted: list[dict[str, Any]], close: Closeness
) -> None:
    assert len(found) == len(wanted)
    for row, other in zip(found, wanted, strict=True):
        for key, value in other.items():
            if key in DIAGNOSTICS and not close.same:
                continue
            wanted_value = (
                pytest.approx(value, rel=close.rows) if isinstance(value, float) else value
            )
            assert row[key] == wanted_value, key


@pytest.mark.parametrize("name", [*(f"{kind}-middle" for kind in VECTORS), "quadratic-end"])
def test_a_run_over_vectors_is_read_as_it_was(name: str) -> None:
    run, wanted = zotune.load_run(FORMAT_1 / name), known(name)
    assert run.x.tolist() == wanted["x"]
    assert run.best_x.tolist() == wanted["best_x"]
    assert run.best_loss == wanted["best_loss"]
    assert_as_it_was(run, wanted)


@pytest.mark.parametrize("kind", WEIGHTS)
def test_a_run_over_weights_is_read_as_it_was(kind: str) -> None:
    run, wanted = zotune.load_run(FORMAT_1 / f"{kind}-middle"), known(f"{kind}-middle")
    assert {name: w.tolist() for name, w in run.weights().items()} == wanted["weights"]
    assert_as_it_was(run, wanted)


def assert_as_it_was(run: Run, wanted: dict[str, Any]) -> None:
    assert (run.status, run.state.steps) == (wanted["status"], wanted["steps"])
    assert asdict(run.state.ledger) == wanted["ledger"]
    assert_same_rows(run.rows, wanted["rows"], Closeness(same=True))


def test_block_sizes_are_found_though_they_were_not_written() -> None:
    rows = zotune.load_run(FORMAT_1 / "quadratic-end").rows
    assert [row["q"] for row in rows] == [0, *[4] * (len(rows) - 2), 2]  # 150 = 37 · 4 + 2


@pytest.mark.parametrize("kind", VECTORS)
def test_a_run_over_vectors_continues_as_if_it_had_not_been_interrupted(
    tmp_path: Path, kind: str
) -> None:
    settings = config_of(f"{kind}-middle")
    problem = settings.pop("problem")
    file = shutil.copy(FORMAT_1 / f"{kind}-middle" / STATE_FILE, tmp_path)
    reports: list[int] = []
    continued = zotune.minimize(
        problem, checkpoint=file, on_report=lambda row: reports.append(row["spent"]), **settings
    )
    assert reports == [100, 150]
    whole = zotune.minimize(problem, on_report=lambda row: None, **settings)
    close = Closeness.of(whole.rows, f"{kind}-middle")
    close.check(continued.x, whole.x)
    assert_same_rows(continued.rows, whole.rows, close)
    again = zotune.load_run(file)  # which is of today's format now
    assert torch.equal(again.x, continued.x)
    assert_same_rows(again.rows, whole.rows, close)
    assert read(Path(file))[0]["notes"]["config"] == config_of(f"{kind}-middle")


@pytest.mark.skipif(sys.version_info[:2] != PYTHON, reason=f"written with Python {PYTHON}")
def test_a_run_of_a_function_continues_with_this_function_only(tmp_path: Path) -> None:
    settings = config_of("function-middle")
    del settings["problem"]
    start = [0.0, 2.0, 0.5]
    file = shutil.copy(FORMAT_1 / "function-middle" / STATE_FILE, tmp_path)
    with pytest.raises(CheckpointError, match="is of another start"):
        zotune.minimize(bowl, [0.0, 2.0, 0.6], checkpoint=file, **settings)
    with pytest.raises(CheckpointError, match="is of another function"):
        zotune.minimize(
            zotune.objective(lambda x: x.sum(), 3, name="bowl"), start, checkpoint=file, **settings
        )
    continued = zotune.minimize(bowl, start, checkpoint=file, **settings)
    whole = zotune.minimize(bowl, start, **settings)
    Closeness.of(whole.rows, "function-middle").check(continued.x, whole.x)


def test_a_run_that_chooses_by_itself_does_not_continue_one_that_was_told(tmp_path: Path) -> None:
    file = shutil.copy(FORMAT_1 / "quadratic-middle" / STATE_FILE, tmp_path)
    problem = config_of("quadratic-middle")["problem"]
    with pytest.raises(CheckpointError, match="only one of the two chooses all settings itself"):
        zotune.minimize(problem, budget=150, replicates=3, count="directions", checkpoint=file)


def weights_loop(kind: str) -> Loop:
    return Loop(parse_config(config_of(f"{kind}-middle")), Toy())


@pytest.mark.parametrize("kind", WEIGHTS)
def test_a_run_over_weights_continues_as_if_it_had_not_been_interrupted(
    tmp_path: Path, kind: str
) -> None:
    continued, whole = weights_loop(kind), weights_loop(kind)
    state, _ = load_loop(continued, FORMAT_1 / f"{kind}-middle" / STATE_FILE)
    end = continued.advance(state)
    half, wanted = whole.advance_to_report(whole.init()), known(f"{kind}-middle")["weights"]
    trained = whole.objective.trained
    close = Closeness(all(trained[name].tolist() == then for name, then in wanted.items()))
    rows = whole.curve_rows(whole.advance(whole.report(half)[0]))
    for name, weight in continued.objective.trained.items():
        close.check(weight, whole.objective.trained[name])
    assert_same_rows(continued.curve_rows(end), rows, close)
    save_loop(continued, end, tmp_path / STATE_FILE)
    assert (tmp_path / SCALARS_FILE).is_file() == (kind == "weights")
    assert_same_rows(zotune.load_run(tmp_path).rows, rows, close)


def test_weights_are_built_again_from_a_log_of_then() -> None:
    toy, wanted = Toy(), known("weights-middle")["weights"]
    rebuild(toy, ScalarLog.load(FORMAT_1 / "weights-middle"))
    for name, weight in toy.trained.items():
        torch.testing.assert_close(weight, torch.tensor(wanted[name]))


def test_a_log_of_then_with_momentum_is_refused() -> None:
    refusal = "of format 2 with momentum, which moved embedding rows that a batch does not see"
    with pytest.raises(CheckpointError, match=refusal) as refused:
        ScalarLog.load(FORMAT_1 / "momentum-middle")
    assert "\n" not in str(refused.value)


def test_every_setting_and_option_of_today_has_a_value_for_then() -> None:
    assert DEFAULTS_1.keys() == Config.model_fields.keys() - {"problem", "budget"}
    parse_config({**DEFAULTS_1, "budget": 1})
    for name, options in PROBLEM_DEFAULTS_1.items():
        assert options.keys() == PROBLEMS[name].options.keys()
