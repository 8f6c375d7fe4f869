"""The trainable by itself: rows, checkpoints, resets; no Tuner."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from ray.tune import PlacementGroupFactory
from torch import Tensor, nn

import zotune
from tests.instrument import INSTRUMENT
from tests.solo import reported, untimed
from zotune.core.names import (
    CURVE_KEY,
    ENDS_KEY,
    GAMMA_KEY,
    LOSSES_KEY,
    LOST_KEY,
    MINIMUM_KEY,
    ROW_KEYS,
)
from zotune.errors import CheckpointError, ConfigError, ObjectiveError, UnknownNameError
from zotune.tune.trainables import ZOTrainable

CONFIG: dict[str, Any] = {
    **INSTRUMENT,
    "problem": {"name": "quadratic", "dim": 12},
    "estimator": "align",
    "q": 5,
    "budget": 400,
    "replicates": 3,
}


@pytest.fixture(autouse=True)
def working_directories_are_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(tmp_path))


Make = Callable[..., ZOTrainable]


@pytest.fixture
def make() -> Make:
    def make(cls: type[ZOTrainable] = ZOTrainable, **settings: Any) -> ZOTrainable:
        return cls(CONFIG | settings)

    return make


def finish(trial: ZOTrainable) -> list[dict[str, Any]]:
    rows = [trial.train()]
    while not rows[-1]["done"]:
        rows.append(trial.train())
    return rows


def outcome(trial: ZOTrainable) -> dict[str, Any]:
    """Everything a trial ends with, to compare bit for bit."""
    rows = finish(trial)
    state = trial._state
    assert state is not None
    ours = [{k: row[k] for k in ("spent", "loss", "best_loss", "status")} for row in rows]
    return {"x": state.x.tolist(), "rows": ours, "curve": untimed(curve_of(trial))}


def curve_of(trial: ZOTrainable) -> list[dict[str, Any]]:
    """The points of its curve, with the seconds of the clock."""
    assert trial._state is not None
    return trial._loop.curve_rows(trial._state)


def save(trial: ZOTrainable, folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    trial.save(str(folder))
    return str(folder)


# Rows


def test_no_metric_can_take_the_name_of_a_column_that_trials_report(make: Make) -> None:
    ours = make().step().keys() - {"timesteps_total", "should_checkpoint"}
    assert {key for key in ours if not key.startswith("chosen_")} <= ROW_KEYS


def test_rows_come_at_the_first_step_at_or_past_each_multiple(make: Make) -> None:
    spent = [row["spent"] for row in finish(make(q=7, budget=100, report_every=20))]
    assert spent == [21, 42, 63, 84, 100]


def test_a_trial_ends_exactly_at_its_budget(make: Make) -> None:
    for settings in ({"q": 7}, {"count": "evaluations"}, {"difference": "central"}):
        last = finish(make(**settings))[-1]
        assert last["spent"] == last["timesteps_total"] == 400
        assert last["status"] == "exhausted"


def test_a_trial_is_the_run_that_minimize_makes(make: Make) -> None:
    trial = make()
    rows = finish(trial)
    run = reported(**_as_arguments(CONFIG))
    assert trial._state is not None
    assert torch.equal(trial._state.x, run.x)
    assert rows[-1]["loss"] == run.rows[-1]["loss"]


def _as_arguments(config: dict[str, Any]) -> dict[str, Any]:
    return {("objective" if key == "problem" else key): value for key, value in config.items()}


def test_all_rows_have_the_same_keys_and_time_is_spent_budget(make: Make) -> None:
    rows = finish(make())
    assert len({tuple(sorted(row)) for row in rows}) == 1
    assert all(row["timesteps_total"] == row["spent"] for row in rows)
    assert [row["should_checkpoint"] for row in rows] == [False] * (len(rows) - 1) + [True]


def test_a_trial_whose_replicates_all_diverge_ends_with_a_result(make: Make) -> None:
    rows = finish(make(estimator="avg", step="constant", eta=1e3, budget=4000))
    assert rows[-1]["status"] == "diverged"
    assert rows[-1]["spent"] < 4000
    assert all(math.isfinite(row["loss"]) for row in rows)


def test_a_trial_whose_time_is_over_ends_at_its_next_report_with_its_losses(make: Make) -> None:
    trial = make(curve=True)
    trial._most_seconds = 0.0
    (row,) = finish(trial)
    assert (row["status"], row["done"], row["should_checkpoint"]) == ("out of time", True, True)
    assert trial._state is not None
    last = row[CURVE_KEY][-1]
    assert last["loss"] == pytest.approx(sum(last[LOSSES_KEY]) / len(last[LOSSES_KEY]))
    assert last[LOSSES_KEY] == trial._loop.final_losses(trial._state)
    assert row["spent"] <= last["spent"] < 400


def test_curve_points_travel_only_when_asked_for(make: Make) -> None:
    assert all(CURVE_KEY not in row for row in finish(make()))
    trial = make(curve=True)
    points = [point for row in finish(trial) for point in row[CURVE_KEY]]
    assert trial._state is not None
    assert points[-1].pop(LOSSES_KEY) == trial._state.loss.tolist()
    assert points[-1].pop(LOST_KEY) == trial._state.diverged.tolist()
    assert points[-1].pop(MINIMUM_KEY) == trial._loop.minimum
    assert points[-1].pop(GAMMA_KEY) == trial._loop.gamma is not None
    assert points == trial._loop.curve_rows(trial._state)


def test_curve_points_stay_out_of_checkpoints(make: Make, tmp_path: Path) -> None:
    trial = make(curve=True)
    trial.train()
    result = trial.save(str(tmp_path / "checkpoint"))
    assert CURVE_KEY not in result.metrics


# Resets and checkpoints


@pytest.mark.parametrize(
    "other",
    [
        {"estimator": "avg", "q": 2},
        {"problem": {"name": "quadratic", "dim": 7}, "replicates": 1},
        {"problem": {"name": "quadratic", "dim": 12, "seed": 1}, "directions": "orthogonal"},
        {"step": "constant", "eta": 1e3},
        {"count": "evaluations", "difference": "central", "seed": 4},
    ],
)
def test_a_reset_trial_equals_its_solo_run(make: Make, other: dict[str, Any]) -> None:
    used = make(curve=True)
    finish(used)
    assert used.reset(CONFIG | other)
    assert outcome(used) == outcome(make(**other))


def test_a_trial_continues_from_its_checkpoint_bit_for_bit(make: Make, tmp_path: Path) -> None:
    first = make()
    early = [first.train() for _ in range(5)]
    folder = save(first, tmp_path / "checkpoint")
    later = make()
    later.restore(folder)
    resumed, undisturbed = outcome(later), outcome(make())
    assert resumed["x"] == undisturbed["x"]
    assert resumed["curve"] == undisturbed["curve"]
    assert len(early) + len(resumed["rows"]) == len(undisturbed["rows"])


def test_the_seconds_of_a_curve_go_on_after_a_restore(make: Make, tmp_path: Path) -> None:
    first = make()
    for _ in range(5):
        row = first.train()
    before = [point["seconds"] for point in curve_of(first)]
    assert before == sorted(before)
    assert 0 <= before[-1] <= row["seconds"]
    first._seconds += 1000.0  # as if it had been slow
    later = make()
    later.restore(save(first, tmp_path / "checkpoint"))
    last = finish(later)[-1]
    seconds = [point["seconds"] for point in curve_of(later)]
    assert seconds[: len(before)] == before
    assert seconds == sorted(seconds)
    assert 1000 < seconds[-1] <= last["seconds"]


def test_points_already_sent_are_not_sent_again_after_a_restore(make: Make, tmp_path: Path) -> None:
    first = make(curve=True)
    sent = [point for _ in range(5) for point in first.train()[CURVE_KEY]]
    later = make(curve=True)
    later.restore(save(first, tmp_path / "checkpoint"))
    sent += [point for row in finish(later) for point in row[CURVE_KEY]]
    assert [p["spent"] for p in sent] == [p["spent"] for p in later._loop.curve_rows(later._state)]  # type: ignore[arg-type]


def test_a_restored_trial_never_evaluates_the_start_again(tmp_path: Path) -> None:
    calls = tmp_path / "calls"  # a file, because the function travels through Ray's object store

    def fn(x: Tensor) -> Tensor:
        with calls.open("a") as file:
            file.write(".")
        return (x**2).sum()

    bound = zotune.trainable(fn, dim=4, name="counted", budget=40, q=2)
    first = bound({})
    first.train()
    folder = save(first, tmp_path / "checkpoint")
    seen = calls.stat().st_size
    assert seen > 0
    bound({}).restore(folder)
    assert calls.stat().st_size == seen


@pytest.mark.parametrize(
    "other", [{"estimator": "avg"}, {"q": 11}, {"step": "constant", "eta": 1e-4}, {"budget": 500}]
)
def test_a_checkpoint_is_continued_under_another_estimator_q_or_step(
    make: Make, tmp_path: Path, other: dict[str, Any]
) -> None:
    donor = make()
    donor.train()
    heir = make(**other)
    heir.restore(save(donor, tmp_path / "checkpoint"))
    assert donor._state is not None
    spent = donor._loop.spent(donor._state)
    last = finish(heir)[-1]
    assert last["spent"] == heir._loop.config.budget > spent


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"problem": {"name": "quadratic", "dim": 13}}, "it has dim=12, this run has dim=13"),
        ({"problem": {"name": "quadratic", "dim": 12, "seed": 1}}, "it has seed=0, this run has"),
        ({"replicates": 2}, "it has replicates=3, this run has replicates=2"),
        ({"count": "evaluations"}, "it has count='directions', this run has"),
        (
            {"problem": {"name": "quadratic", "dim": 12, "dtype": "float32"}},
            "it has dtype='float64', this run has dtype='float32'",
        ),
    ],
)
def test_a_checkpoint_of_another_problem_is_refused(
    make: Make, tmp_path: Path, other: dict[str, Any], message: str
) -> None:
    trial = make()
    trial.train()
    folder = save(trial, tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match=message):
        make(**other).restore(folder)


def test_a_checkpoint_holds_one_small_file_and_no_pickle(make: Make, tmp_path: Path) -> None:
    trial = make()
    trial.train()
    folder = Path(save(trial, tmp_path / "checkpoint"))
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path.name for path in files] == ["state.safetensors"]
    size = int.from_bytes(files[0].read_bytes()[:8], "little")
    assert json.loads(files[0].read_bytes()[8 : 8 + size])
    assert files[0].stat().st_size < 20_000


def test_the_run_behind_a_checkpoint_comes_back(make: Make, tmp_path: Path) -> None:
    trial = make()
    finish(trial)
    run = zotune.load_run(save(trial, tmp_path / "checkpoint"))
    direct = reported(**_as_arguments(CONFIG))
    assert torch.equal(run.x, direct.x)
    assert torch.equal(run.best_x, direct.best_x)
    assert untimed(run.rows) == direct.rows
    assert run.status == "exhausted"


# Settings


def test_numbers_of_numpy_are_numbers(make: Make) -> None:
    trial = make(
        q=np.int64(3), eta=np.float64(0.5), problem={"name": "quadratic", "dim": np.int64(4)}
    )
    assert trial._loop.config.q == 3
    assert type(trial._loop.config.q) is int


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"estimator": "averge"}, UnknownNameError, None),
        (
            {"problem": None},
            ConfigError,
            "problem must be a name or a mapping with 'name', got None",
        ),
        ({"problem": "quadratc"}, UnknownNameError, r"did you mean 'quadratic'"),
        ({"q": 13}, ConfigError, "q must be at most the dimension for estimator 'align'"),
        ({"learning_rate": 1}, ConfigError, "'learning_rate' is not a setting"),
    ],
)
def test_bad_settings_fail_in_setup_with_one_line(
    make: Make, settings: dict[str, Any], error: type[Exception], message: str | None
) -> None:
    expected = ConfigError if error is UnknownNameError and message is None else error
    with pytest.raises(expected, match=message or "estimator 'averge' is not known"):
        make(**settings)


class Given(ZOTrainable):
    """A trainable that was given resources, as Tune gives them."""

    resources: ClassVar[dict[str, float]] = {}

    @property
    def trial_resources(self) -> PlacementGroupFactory:
        return PlacementGroupFactory([self.resources])


@pytest.mark.parametrize(("cpus", "threads"), [(0.5, 1), (1.0, 1), (2.0, 2), (3.0, 3)])
def test_threads_follow_the_cpu_share(cpus: float, threads: int) -> None:
    before = torch.get_num_threads()
    try:
        type("Shared", (Given,), {"resources": {"CPU": cpus}})(dict(CONFIG))
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_the_device_follows_the_gpu_share(monkeypatch: pytest.MonkeyPatch) -> None:
    half = type("Half", (Given,), {"resources": {"CPU": 1.0, "GPU": 0.5}})(dict(CONFIG))
    assert half._device() == torch.device("cpu")  # nothing there
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert half._device() == torch.device("cuda")
    none = type("None_", (Given,), {"resources": {"CPU": 1.0}})(dict(CONFIG))
    assert none._device() == torch.device("cpu")


# Objectives of the user's own


def test_a_function_with_data_is_called_with_both() -> None:
    target = torch.arange(3.0, dtype=torch.float64)
    bound = zotune.trainable(
        lambda x, data: (x - data).square().sum(),
        data=target,
        dim=3,
        name="shifted",
        budget=300,
        q=3,
    )
    trial = bound({"estimator": "align"})
    finish(trial)
    assert trial._state is not None
    assert torch.allclose(trial._state.best_x[0], target, atol=1e-4)


def test_a_factory_is_called_with_the_data_once_an_actor(tmp_path: Path) -> None:
    made = tmp_path / "made"

    def make(data: float) -> zotune.Objective:
        with made.open("a") as file:
            file.write(f"{data};")
        return zotune.objective(lambda x: (x - data).square().sum(), dim=2, L=2.0)

    trial = zotune.trainable(zotune.factory(make), data=3.0, name="made", budget=50)({"q": 2})
    finish(trial)
    trial.reset({"q": 1})
    finish(trial)
    assert made.read_text() == "3.0;"


def test_a_factory_that_makes_something_else_is_told_so() -> None:
    bound = zotune.trainable(zotune.factory(lambda data: 3), name="wrong", budget=10)  # type: ignore[arg-type,return-value]
    with pytest.raises(ObjectiveError, match="a factory returns an Objective, got int"):
        bound({})


class Regression(nn.Module):
    """Linear regression with the loss as a method of its own, one weight frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1, dtype=torch.float64)
        self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)

    def loss(self, data: tuple[Tensor, Tensor]) -> Tensor:
        features, targets = data
        return (self.layer(features)[:, 0] - targets).square().mean()


def test_a_module_with_a_loss_is_minimised_over_its_trainable_parameters() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(50, 3, dtype=torch.float64, generator=generator)
    targets = features @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64) + 3
    torch.manual_seed(0)
    module = Regression()
    before = [p.detach().clone() for p in module.parameters()]
    trial = zotune.trainable(module, data=(features, targets), budget=2000, q=4)({})
    rows = finish(trial)
    assert trial._loop.objective.dim == 4
    assert rows[-1]["loss"] < 1e-3
    assert trial._state is not None
    assert torch.allclose(
        trial._state.x[0], torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64), atol=0.05
    )
    assert all(torch.equal(p, b) for p, b in zip(module.parameters(), before, strict=True))


def test_a_module_without_a_number_for_a_loss_is_told_so() -> None:
    bound = zotune.trainable(nn.Linear(2, 2), data=torch.ones(1, 2), budget=10, name="vector")
    with pytest.raises(ObjectiveError, match=r"a module's loss is one number, got \(1, 2\)"):
        bound({}).train()
    frozen = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(ObjectiveError, match="Linear has no trainable parameters"):
        zotune.trainable(frozen, data=torch.ones(1, 2), budget=10, name="frozen")({})


def test_names_are_stable_and_no_two_objectives_share_one() -> None:
    functions = [(lambda x, k=k: (k * x**2).sum()) for k in (1, 2)]
    names = [zotune.trainable(fn, dim=2).__name__ for fn in functions]
    assert len(set(names)) == 2
    assert zotune.trainable(functions[0], dim=2).__name__ == names[0]
    assert zotune.trainable(functions[0], dim=2, data=3).__name__ not in names
    assert all(name.startswith("lambda-") for name in names)


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        (lambda: zotune.trainable(lambda x: 1.0), "a plain function does not know its dimension"),
        (lambda: zotune.trainable(3), r"bound to an Objective, a function, .*got int"),
        (lambda: zotune.trainable(len, dim=2, budgt=3), r"'budgt' is not a setting \(did you mean"),
    ],
)
def test_a_bad_binding_is_refused_at_once(bind: Callable[[], Any], message: str) -> None:
    with pytest.raises(zotune.ZotuneError, match=message):
        bind()


def test_the_last_row_has_the_ends_of_all_replicates_where_a_search_needs_them(make: Make) -> None:
    assert all(ENDS_KEY not in row for row in finish(make()))
    trial = make()
    trial._tells_ends = True
    *before, last = finish(trial)
    assert trial._state is not None
    assert all(row[ENDS_KEY] == "" for row in before)
    assert json.loads(last[ENDS_KEY]) == {
        LOSSES_KEY: trial._state.loss.tolist(),
        LOST_KEY: trial._state.diverged.tolist(),
        MINIMUM_KEY: trial._loop.minimum,
    }
