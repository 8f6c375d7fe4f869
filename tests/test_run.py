"""``zotune.minimize`` as a user calls it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import zotune
from tests.instrument import minimize
from tests.servers import wait_for
from zotune.config import Config
from zotune.errors import CheckpointError, ConfigError, ObjectiveError, UnknownNameError
from zotune.loop import Loop
from zotune.runs.bar import Bar
from zotune.runs.checkpoint import load_state
from zotune.runs.minimize import finish


def test_a_plain_function_of_one_vector_is_minimised() -> None:
    run = minimize(lambda x: ((x - 1) ** 2).sum().item(), x0=[0.0] * 5, q=5, budget=300)
    assert run.status == "exhausted"
    assert run.x.shape == (1, 5)
    assert torch.allclose(run.best_x, torch.ones(5, dtype=torch.float64), atol=1e-3)
    assert run.curve["spent"].tolist()[0] == 0
    assert run.curve["spent"].tolist()[-1] == 300


@pytest.mark.parametrize("returns", ["tensor", "numpy", "list"])
def test_a_batched_function_gives_what_the_plain_one_gives(returns: str) -> None:
    def batched(x: Tensor) -> Any:
        values = (x**4).sum(-1)
        as_kind = {"tensor": values, "numpy": values.numpy(), "list": values.tolist()}
        return as_kind[returns]

    settings: dict[str, Any] = {"q": 2, "budget": 40, "x0": [1.0, 2.0, 3.0], "L": 200.0}
    one = minimize(zotune.objective(lambda x: (x**4).sum(), 3), **settings)
    many = minimize(zotune.objective(batched, 3, batched=True), **settings)
    assert torch.allclose(one.x, many.x, atol=1e-6)


def test_dtype_is_honoured() -> None:
    seen = set()

    def fn(x: Tensor) -> Tensor:
        seen.add(x.dtype)
        return (x**2).sum()

    run = minimize(zotune.objective(fn, 4, dtype=torch.float32), x0=[1.0] * 4, q=2, budget=200)
    assert seen == {torch.float32}
    assert run.x.dtype == torch.float32
    assert run.best_loss < 0.1


def test_replicates_start_apart_and_share_nothing_else() -> None:
    starts = torch.tensor([[3.0, 0.0], [0.0, 3.0]])
    run = minimize(lambda x: (x**2).sum(), x0=starts, q=1, budget=6, replicates=2, L=2.0)
    assert run.x.shape == (2, 2)
    assert not torch.equal(run.x[0], run.x[1])


@pytest.mark.slow
def test_nothing_known_of_the_function_and_it_still_falls() -> None:
    scale = torch.logspace(0, 2, 20, dtype=torch.float64)
    for estimator in ("avg", "align"):
        for q in (1, 5, 20):
            run = minimize(
                lambda x: (scale * (x - 1) ** 2).sum(),
                x0=[0.0] * 20,
                estimator=estimator,
                q=q,
                budget=2000,
            )
            assert run.rows[-1]["loss"] < 0.1 * run.rows[0]["loss"], (estimator, q)
            assert run.state.ledger.queries == 2000


def test_the_estimate_of_smoothness_is_charged() -> None:
    run = minimize(lambda x: (x**2).sum(), x0=[1.0] * 6, q=2, budget=100)
    first = run.rows[0]
    assert first["spent"] == 0
    assert run.state.ledger.queries == 100
    assert run.state.inverse_smoothness.item() == pytest.approx(0.5, rel=1e-3)


def test_equal_seeds_give_equal_runs_and_other_seeds_others() -> None:
    def end(seed: int) -> Tensor:
        return minimize({"name": "quadratic", "dim": 9}, q=3, budget=30, seed=seed).x

    assert torch.equal(end(1), end(1))
    assert not torch.equal(end(1), end(2))


def test_a_report_comes_at_fixed_points_of_spent_budget() -> None:
    seen: list[int] = []
    minimize(
        {"name": "quadratic", "dim": 9},
        q=3,
        budget=100,
        report_every=20,
        on_report=lambda row: seen.append(row["spent"]),
    )
    assert seen == [21, 42, 60, 81, 100]


@pytest.mark.slow
def test_a_killed_run_continues_bit_for_bit(tmp_path: Path) -> None:
    """A real SIGKILL in the middle; the second process continues from the checkpoint."""
    program = (
        "import sys, time, zotune\n"
        "def fn(x):\n"
        "    time.sleep(float(sys.argv[2]))\n"
        "    return ((x - 1) ** 4).sum()\n"
        "run = zotune.minimize(fn, x0=[0.0] * 5, q=3, budget=400, L=12.0, checkpoint=sys.argv[1])\n"
        "print(run.x.tolist(), run.curve.to_json(), run.state.ledger)\n"
    )

    def command(path: Path, pause: float) -> list[str]:
        return [sys.executable, "-c", program, str(path), str(pause)]

    path = tmp_path / "run"
    victim = subprocess.Popen(command(path, 0.005), stdout=subprocess.DEVNULL)
    wait_for(lambda: path.exists() and load_state(path)[0].steps > 0)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert path.exists()
    outputs = [
        subprocess.run(command(p, 0), capture_output=True, text=True, check=True).stdout
        for p in (path, tmp_path / "undisturbed")
    ]
    assert outputs[0] == outputs[1]


def test_a_slow_run_is_saved_between_its_reports(tmp_path: Path) -> None:
    """A simulator that is killed loses a second and a block, not a sixteenth of its budget."""
    calls, path = [], tmp_path / "run"

    def slow(x: np.ndarray) -> float:
        calls.append(x)
        time.sleep(0.03)
        if len(calls) == 90:
            saved.append(load_state(path)[0].ledger.evaluations)
            raise OSError("enough")
        return float((x**2).sum())

    saved: list[int] = []
    with pytest.raises(OSError, match="enough"):
        zotune.minimize(slow, [1.0, 2.0, 3.0], budget=3200, checkpoint=path)
    assert saved[0] > 20  # the first report is at 200


def test_the_bar_moves_with_every_step() -> None:
    class Seen(Bar):
        is_shown = True

        def show(self, spent: int, best: float) -> None:
            told.append(spent)

    told: list[int] = []
    loop = Loop(Config(budget=320), zotune.objective(lambda x: (x**2).sum(), 3), [1.0, 2.0, 3.0])
    finish(loop, bar=Seen(320))
    assert len(told) > 16
    assert told == sorted(told)


def test_functions_whose_code_uses_numpy_are_called_with_arrays() -> None:
    kinds = set()

    def f(x):  # type: ignore[no-untyped-def]
        kinds.add(type(x))
        return np.sum((x - np.arange(3)) ** 2)

    def g(x):  # type: ignore[no-untyped-def]
        kinds.add(type(x))
        return x.square().sum() * np.pi  # of tensors, all the same

    zotune.minimize(f, [1.0, 1.0, 1.0], budget=20)
    assert kinds == {np.ndarray}
    assert zotune.minimize(g, [1.0, 1.0], budget=40).best_loss < 1e-6


@pytest.mark.parametrize("kept", [torch.ones(2, dtype=torch.float64), torch.nn.Linear(2, 1)])
def test_functions_that_keep_tensors_or_modules_are_called_with_tensors(kept: Any) -> None:
    kinds = set()

    def f(x):  # type: ignore[no-untyped-def]
        kinds.add(type(x))
        return (x**2).sum() if kept is not None else 0.0

    zotune.minimize(f, [1.0, 1.0], budget=20)
    assert kinds == {torch.Tensor}


def test_an_array_that_a_function_fails_with_is_not_evaluated_twice_as_a_tensor() -> None:
    calls = []

    def f(x):  # type: ignore[no-untyped-def]
        calls.append(type(x))
        return float(x.max(initial=0.0)) + float((x**2).sum())  # of arrays only

    run = zotune.minimize(f, [1.0, 1.0], budget=20)
    assert calls.count(np.ndarray) == run.nfev


@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_a_function_may_change_its_argument(array: str) -> None:
    def f(x: Any) -> float:
        x -= 1
        return float((x**2).sum())

    run = zotune.minimize(f, [3.0, 2.0], budget=100, array=array)
    assert run.best_x.round(decimals=3).tolist() == [1.0, 1.0]


def test_a_misspelled_name_of_the_package_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"'minimise' \(did you mean 'minimize'\?\)"):
        _ = zotune.minimise  # type: ignore[attr-defined]


def test_a_checkpoint_of_another_function_is_refused(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"q": 1, "budget": 20, "checkpoint": tmp_path / "run"}
    minimize({"name": "quadratic", "dim": 4}, **settings)
    with pytest.raises(CheckpointError, match="it has dim=4, this run has dim=5"):
        minimize({"name": "quadratic", "dim": 5}, **settings)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("high", "an objective returns a number, got str: 'high'"),
        (None, "an objective returns a number, got NoneType"),
        (torch.ones(3), r"an objective returns one number, got shape \(3,\); say residuals=True"),
        (np.ones((2, 2)), r"an objective returns one number, got shape \(2, 2\)"),
        (1j, "an objective returns a number, got complex"),
        (np.complex128(1j), "an objective returns a real number, got .* of complex128; take its"),
    ],
)
def test_an_objective_that_returns_no_number_is_told_so(result: Any, message: str) -> None:
    with pytest.raises(ObjectiveError, match=message):
        minimize(lambda x: result, x0=[1.0, 2.0], q=1, budget=4)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (torch.ones(2, 2), r"one number a point, shape \(1,\), got shape \(2, 2\) of float32"),
        (torch.tensor(1.0), r"got shape \(\) of float32; leave batched=False"),
        ("high", "a batched objective returns a tensor of 1 numbers, got str: 'high'"),
    ],
)
def test_a_batched_objective_of_the_wrong_shape_is_told_so(result: Any, message: str) -> None:
    with pytest.raises(ObjectiveError, match=message):
        minimize(zotune.objective(lambda x: result, 2, batched=True), q=1, budget=4)


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int64(1), torch.tensor(1), True])
def test_any_kind_of_number_will_do(value: Any) -> None:
    assert float(zotune.objective(lambda x: value, 2).values(torch.zeros(1, 2))) == 1


def test_what_the_function_raises_is_what_the_user_sees() -> None:
    def fn(x: Tensor) -> float:
        raise RuntimeError("the simulator is on fire")

    with pytest.raises(RuntimeError, match="the simulator is on fire"):
        minimize(fn, x0=[1.0], q=1, budget=4)


def test_a_flat_function_asks_for_a_step_size() -> None:
    with pytest.raises(ConfigError, match="shows no curvature around the start point; give L"):
        minimize(lambda x: x.sum() * 0.0, x0=[1.0, 1.0], q=1, budget=40)


def test_a_function_without_a_dimension_asks_for_it() -> None:
    with pytest.raises(ConfigError, match=r"give x0, or wrap it with zotune.objective\(fn, dim\)"):
        zotune.minimize(lambda x: 1.0, budget=4)
    with pytest.raises(ConfigError, match=r"objective must be an Objective.* got int"):
        zotune.minimize(3, budget=4)  # type: ignore[arg-type]


def test_a_longer_word_for_an_option_offers_it() -> None:
    with pytest.raises(ConfigError, match="'dimension' \\(did you mean 'dim'"):
        zotune.minimize({"name": "quadratic", "dimension": 5}, budget=20)


def test_an_unknown_problem_or_option_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"problem 'quadratc' .*did you mean 'quadratic'"):
        zotune.minimize("quadratc", budget=4)
    with pytest.raises(ConfigError, match=r"'quadratic' has no option 'dims' \(did you mean 'dim'"):
        zotune.minimize({"name": "quadratic", "dims": 3}, budget=4)
    with pytest.raises(ConfigError, match="problem must be a name or a mapping with 'name'"):
        zotune.minimize({"dim": 3}, budget=4)


def test_a_run_tells_what_it_is() -> None:
    run = minimize({"name": "quadratic", "dim": 5}, q=2, budget=20)
    assert repr(run).startswith("Run(align q=2, exhausted after 20 of 20 directions, loss ")


def test_a_curve_has_as_many_points_as_it_is_told_and_the_run_is_the_same() -> None:
    settings: dict[str, Any] = {"x0": [1.0] * 3, "q": 2, "budget": 40}
    bowl = zotune.objective(lambda x: (x**2).sum(), dim=3, L=2.0)
    few, many = (minimize(bowl, points=n, **settings) for n in (5, 41))
    assert [row["spent"] for row in few.rows] == [0, 10, 20, 30, 40]
    assert torch.equal(few.x, many.x)
    for row in few.rows:
        other = many.rows[row["spent"]]
        assert (row["spent"], row["steps"], row["loss"]) == tuple(
            other[key] for key in ("spent", "steps", "loss")
        )
    with pytest.raises(ConfigError, match="points must be less than or equal to 320, got 321"):
        minimize(bowl, points=321, **settings)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"estimator": "avg"}, "a run with estimator 'align', not 'avg'"),
        ({"seed": 1}, "a run with seed 0, not 1"),
        ({"x0": [2.0] * 3}, "another start"),
        ({"objective": lambda x: x.abs().sum()}, "another function"),
    ],
)
def test_a_checkpoint_of_another_run_is_not_returned_as_this_one_s(
    tmp_path: Path, changes: dict[str, Any], what: str
) -> None:
    asked: dict[str, Any] = {
        "objective": lambda x: x.square().sum(),
        "x0": [1.0] * 3,
        "q": 2,
        "budget": 20,
        "L": 2.0,
        "checkpoint": tmp_path / "run.safetensors",
    }
    first = minimize(**asked)
    assert torch.equal(minimize(**asked).x, first.x)
    assert minimize(**asked | {"budget": 40}).rows[-1]["spent"] == 40
    with pytest.raises(CheckpointError, match=f"is of {what}; give each run a checkpoint"):
        minimize(**asked | changes)


def test_a_run_and_its_checkpoint_say_what_they_were_made_with(tmp_path: Path) -> None:
    """What its bits depend on beside its configuration."""
    file = tmp_path / "run.safetensors"
    run = zotune.minimize(lambda x: (x**2).sum(), [1.0, 2.0], budget=20, checkpoint=file)
    assert run.provenance["torch"] == torch.__version__
    assert run.provenance["threads"] == str(torch.get_num_threads())
    assert run.provenance["cpu_capability"] == torch.backends.cpu.get_cpu_capability()
    assert {"zotune", "python", "ray", "mlflow", "machine"} <= run.provenance.keys()
    assert zotune.load_run(file).provenance == run.provenance
    other = zotune.minimize(lambda x: (x**4).sum(), [1.0, 2.0], budget=20)
    differ = {key for key in run.provenance if run.provenance[key] != other.provenance[key]}
    assert differ == {"code"}


def test_the_code_of_a_function_is_the_same_in_every_process() -> None:
    """Functions inside it have addresses, and sets an order, that differ between processes."""
    script = (
        "from zotune.runs.sources import code_of\n"
        "def fn(x):\n"
        "    return sum(y * y for y in x if y not in {'a', 'b', 'c', 'd'})\n"
        "print(code_of(fn), code_of(lambda x: sum(y for y in x)))\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    }
    assert len(told) == 1


@pytest.mark.parametrize("x0", [0.0, "abc", [[[1.0]]], [[1.0], [1.0, 2.0]]])
def test_a_start_that_is_no_vector_is_refused(x0: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"x0 must be a vector, \(d,\), or one for each replicate"
    ):
        zotune.minimize(lambda x: float((x**2).sum()), x0=x0, budget=10)


def test_a_checkpoint_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="checkpoint must be a file, got the folder"):
        zotune.minimize(lambda x: float((x**2).sum()), x0=[1.0], budget=10, checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("difference", "points", "looks"), [("forward", 320, 2), ("central", 2, 3), ("central", 11, 12)]
)
def test_only_what_a_curve_or_a_report_needs_is_looked_at(
    difference: str, points: int, looks: int
) -> None:
    calls: list[Tensor] = []
    settings: dict[str, Any] = {"q": 4, "budget": 400, "count": "evaluations", "L": 2.0}

    def fn(x: Tensor) -> float:
        calls.append(x)
        return float((x**2).sum())

    cheap = zotune.objective(fn, 6, cheap=True)
    run = minimize(cheap, x0=[1.0] * 6, difference=difference, points=points, **settings)
    ledger = run.state.ledger
    assert ledger.monitored == looks
    assert len(calls) == ledger.evaluations + ledger.monitored


@pytest.mark.parametrize("problem", ["quadratic", "rosenbrock"])
def test_the_points_of_a_run_are_yours_to_differentiate_and_to_change(problem: str) -> None:
    run = minimize({"name": problem, "dim": 4}, q=2, budget=40)
    for point in (run.x[0], run.best_x):
        wanted = point.clone().requires_grad_()
        wanted.square().sum().backward()
        assert torch.equal(wanted.grad, 2 * point)
        point.mul_(2)
    assert torch.equal(run.x, run.state.x)


def test_a_run_says_how_many_of_its_replicates_are_lost_and_what_helps() -> None:
    x0 = [[1.0], [99.9999999]]
    settings = {"x0": x0, "q": 2, "budget": 30, "replicates": 2, "estimator": "avg", "L": 20.0}
    run = minimize(lambda x: math.nan if x[0] > 100 else float(x[0] ** 2), **settings)
    assert repr(run).endswith(", 1 of 2 replicates diverged; give a smaller eta, or L)")
    alone = minimize({"name": "quadratic", "dim": 4}, budget=900, eta=1e4)
    assert alone.status == "diverged"
    assert alone.message == "the run diverged; give a smaller eta, or L"
    assert repr(alone).endswith("; give a smaller eta, or L)")
    assert "diverged" not in repr(zotune.minimize({"name": "quadratic", "dim": 4}, budget=40))


@pytest.mark.parametrize("batched", [False, True])
def test_an_error_of_a_function_is_told_what_it_was_called_with(batched: bool) -> None:
    f = zotune.objective(lambda x: torch.ones(3) @ x.mT, 3, batched=batched)
    with pytest.raises(RuntimeError) as raised:
        zotune.minimize(f, budget=20)
    (note,) = raised.value.__notes__
    shape = "(1, 3)" if batched else "(3,)"
    assert f"with a torch tensor of float64, shape {shape}; x.numpy() makes it an array" in note


def test_an_error_that_has_nothing_to_do_with_tensors_gets_no_hint() -> None:
    def solver(x: Tensor) -> float:
        raise RuntimeError("the solver did not converge")

    with pytest.raises(RuntimeError, match="did not converge") as raised:
        zotune.minimize(solver, [0.0, 0.0], budget=20)
    assert not hasattr(raised.value, "__notes__")


def test_a_start_may_stand_second_and_may_require_a_gradient() -> None:
    start = torch.ones(3, dtype=torch.float64, requires_grad=True)
    run = minimize(lambda x: (x**2).sum(), start, q=3, budget=60)
    assert run.best_loss < 1e-6
    assert not run.x.requires_grad


@pytest.mark.parametrize("L", [0, -1.0, math.inf, math.nan, True, "2"])
def test_a_smoothness_that_cannot_be_is_refused(L: Any) -> None:
    with pytest.raises(ConfigError, match="L must be a positive number"):
        zotune.objective(lambda x: x.sum(), 3, L=L)


@pytest.mark.parametrize("scale", [1e-180, 1e-300, 1e180])
def test_a_function_of_any_scale_is_descended(scale: float) -> None:
    run = minimize(lambda x: scale * ((x - 1) ** 2).sum(), [0.0] * 5, q=5, budget=100)
    assert run.best_loss < 1e-6 * scale


def test_the_best_point_is_the_best_of_all_that_were_charged() -> None:
    seen: list[tuple[float, list[float]]] = []

    def wavy(x: Tensor) -> float:
        value = float((x**2).sum() + torch.cos(20 * x).sum())
        seen.append((value, x.tolist()))
        return value

    settings: dict[str, Any] = {"q": 2, "mu": 0.05, "step": "constant", "eta": 0.05, "points": 2}
    for difference in ("forward", "central"):
        seen.clear()
        run = minimize(wavy, [1.0, 2.0], budget=80, difference=difference, **settings)
        lowest, point = min(seen)
        assert run.best_loss == lowest
        assert run.best_x.tolist() == point


def test_a_function_that_raises_loses_nothing_that_was_paid(tmp_path: Path) -> None:
    limit, calls, path = 30, 0, tmp_path / "run"

    def simulator(x: Tensor) -> float:
        nonlocal calls
        calls += 1
        if calls > limit:
            raise OSError("no licence")
        return float((x**2).sum())

    settings: dict[str, Any] = {"q": 1, "budget": 40, "L": 2.0, "x0": [1.0, 1.0]}
    with pytest.raises(OSError, match="no licence"):
        minimize(simulator, checkpoint=path, report_every=40, **settings)
    saved = zotune.load_run(path)
    assert (saved.state.steps, saved.nfev) == (14, 29)  # of two calls each, and the start twice
    limit, calls = 10**6, 0
    resumed = minimize(simulator, checkpoint=path, report_every=40, **settings)
    assert calls == resumed.nfev - saved.nfev
    whole = minimize(simulator, report_every=40, **settings)
    assert torch.equal(resumed.x, whole.x)
    assert resumed.state.ledger == whole.state.ledger


def test_a_run_leaves_a_checkpoint_before_its_first_report(tmp_path: Path) -> None:
    def broken_at_the_second_step(x: Tensor) -> float:
        if float(x[0]) != 1.0:
            raise KeyboardInterrupt
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        minimize(broken_at_the_second_step, [1.0], budget=20, L=1.0, checkpoint=tmp_path / "run")
    assert zotune.load_run(tmp_path / "run").spent == 0


def test_a_type_may_be_given_by_name() -> None:
    bowl = zotune.objective(lambda x: (x**2).sum(), 3, dtype="float32")
    assert zotune.minimize(bowl, x0=[1.0] * 3, budget=50).x.dtype == torch.float32


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("lr", r"'lr' is not a setting \(did you mean 'eta'\?\)"),
        ("batched", r"'batched' is not a setting of a run; it is one of zotune\.objective\("),
    ],
)
def test_what_is_looked_for_among_settings_is_told_its_place(key: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        minimize(lambda x: x.sum(), x0=[0.0], budget=10, **{key: 1})


def bowl(x: torch.Tensor) -> torch.Tensor:
    return (x**2).sum(-1)


@pytest.mark.parametrize(
    ("known", "settings", "used", "estimated"),
    [
        (None, {}, None, True),
        (2.0, {}, 2.0, False),
        (None, {"L": 5.0}, 5.0, False),
        (None, {"step": "constant", "eta": 0.1}, None, False),
    ],
)
def test_a_run_says_which_smoothness_its_step_used_and_whether_it_was_estimated(
    tmp_path: Path,
    known: float | None,
    settings: dict[str, Any],
    used: float | None,
    estimated: bool,
) -> None:
    rows: list[dict[str, Any]] = []
    path = tmp_path / "run.safetensors"
    f = zotune.objective(bowl, 4, L=known)
    given = {"x0": [1.0] * 4, "q": 2, "budget": 60, "replicates": 3} | settings
    run = minimize(f, on_report=rows.append, checkpoint=path, **given)
    for one in (run, zotune.load_run(path)):
        assert one.smoothness_estimated is estimated
        assert ("L estimated" in repr(one)) is estimated
        if "step" in settings:
            assert one.smoothness is None
        else:
            assert one.smoothness.tolist() == pytest.approx([used or 2.0] * 3, rel=1e-3)
    assert {row["L_estimated"] for row in rows} == {estimated}
    assert {row["start_loss"] for row in rows} == {4.0}
    assert all((row["L"] is None) is ("step" in settings) for row in rows)


@pytest.mark.parametrize("way", [{}, {"q": 2, "L": 900.0}])
@pytest.mark.parametrize("end", ["true", "numpy", "raise"])
def test_on_report_ends_a_run_in_good_order(way: dict[str, Any], end: str, tmp_path: Path) -> None:
    calls: list[int] = []
    rows: list[dict[str, Any]] = []

    def f(x: Tensor) -> Tensor:
        calls.append(1)
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    def report(row: dict[str, Any]) -> Any:
        rows.append(row)
        if len(rows) < 3:
            return len(rows)  # as ``file.write`` does: only True ends a run
        if end == "raise":
            raise StopIteration
        return True if end == "true" else np.bool_(True)

    path = tmp_path / "run"
    run = zotune.minimize(f, [-1.2, 1.0], budget=160, on_report=report, checkpoint=path, **way)
    assert (run.status, run.success) == ("stopped", False)
    assert run.message.startswith("on_report ended the run")
    assert len(rows) == 3
    assert rows[-1]["evaluations"] <= len(calls) == run.nfev <= rows[-1]["evaluations"] + 1
    saved = zotune.load_run(path)
    assert (saved.message, saved.success, saved.status) == (run.message, False, "stopped")
    more = zotune.minimize(f, [-1.2, 1.0], budget=160, checkpoint=path, **way)
    whole = zotune.minimize(f, [-1.2, 1.0], budget=160, **way)
    assert torch.equal(more.best_x, whole.best_x)
    assert more.success == whole.success


def test_on_report_at_the_end_of_the_budget_changes_nothing() -> None:
    def f(x: Tensor) -> Tensor:
        return (x**2).sum()

    run = zotune.minimize(f, [1.0, 2.0], budget=40, report_every=40, on_report=lambda row: True)
    assert run.message.startswith("the budget of 40 evaluations was spent")
    assert run.success
