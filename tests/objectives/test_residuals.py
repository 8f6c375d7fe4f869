"""Functions that return residuals: declared, checked, and minimised as a sum of squares."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import zotune
from zotune.errors import ConfigError, ObjectiveError, ZotuneError

Array = npt.NDArray[np.float64]
TIMES = np.linspace(0.0, 4.0, 30)
TRUTH = np.array([2.0, 0.7, 0.3])
DATA = TRUTH[0] * np.exp(-TRUTH[1] * TIMES) + TRUTH[2]
DATA += 0.01 * np.random.default_rng(0).standard_normal(len(TIMES))
START = [1.0, 0.2, 0.0]


def decay(x: Array) -> Array:
    return x[0] * np.exp(-x[1] * TIMES) + x[2] - DATA


class Counted:
    """The same function, which counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Array) -> Array:
        self.calls += 1
        return decay(x)


def test_residuals_are_fitted_by_gauss_newton() -> None:
    f = Counted()
    run = zotune.minimize(f, START, budget=100, residuals=True)
    assert f.calls == run.nfev < 40
    assert run.message.startswith(f"gauss-newton ended after {f.calls} of 100 evaluations: ")
    assert str(run.chosen["method"]) == "gauss-newton: the function returns residuals"
    assert run.residuals.numpy() == pytest.approx(decay(run.best_x.numpy()))
    assert run.best_loss == pytest.approx((decay(run.best_x.numpy()) ** 2).sum())
    assert run.best_x.numpy() == pytest.approx(TRUTH, abs=0.05)


def test_standard_errors_are_those_of_the_linear_model_at_the_minimum() -> None:
    from scipy.optimize import curve_fit

    run = zotune.minimize(decay, START, budget=100, residuals=True)
    best, covariance = curve_fit(lambda t, a, b, c: a * np.exp(-b * t) + c, TIMES, DATA, START)
    assert run.best_x.numpy() == pytest.approx(best, rel=1e-4)
    assert run.covariance.numpy() == pytest.approx(covariance, rel=1e-2)
    assert run.standard_errors.numpy() == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-2)
    assert run.correlations.diagonal().numpy() == pytest.approx(1.0)
    assert run.jacobian.shape == (30, 3)


def test_a_parameter_that_the_data_do_not_determine_has_no_finite_error() -> None:
    def twice(x: Array) -> Array:
        return decay(np.array([x[0], x[1], x[2] + x[3]]))

    run = zotune.minimize(twice, [*START, 0.0], budget=200, residuals=True)
    errors = run.standard_errors.numpy()
    assert np.isinf(errors).tolist() == [False, False, True, True]
    assert errors[0] < 0.05


def test_all_methods_see_the_sum_of_squares_of_the_same_function() -> None:
    fits = {
        method: zotune.minimize(decay, START, budget=300, residuals=True, method=method)
        for method in ("gauss-newton", "quasi-newton", "lbfgsb")
    }
    best = fits["gauss-newton"].best_loss
    assert all(run.best_loss < 1.1 * best for run in fits.values())
    lowest = fits["lbfgsb"]
    assert lowest.residuals.square().sum().item() == pytest.approx(lowest.best_loss)
    with pytest.raises(ZotuneError, match="no Jacobian of the residuals; the method 'gauss-newton"):
        _ = lowest.covariance
    blocks = zotune.minimize(decay, START, budget=300, residuals=True, estimator="align", q=3)
    assert blocks.best_loss < 1.0


def test_a_vector_without_the_declaration_is_refused_with_the_word_to_say() -> None:
    with pytest.raises(ObjectiveError, match=r"got shape \(30,\); say residuals=True"):
        zotune.minimize(decay, START, budget=20)
    with pytest.raises(ObjectiveError, match="say residuals=True for a vector"):
        zotune.minimize(lambda x: decay(x).tolist(), START, budget=20)
    with pytest.raises(ConfigError, match="'gauss-newton' is for functions that return a vector"):
        zotune.minimize(lambda x: float(x @ x), START, budget=20, method="gauss-newton")
    run = zotune.minimize(lambda x: float((decay(x) ** 2).sum()), START, budget=20)
    with pytest.raises(ZotuneError, match="this run has no residuals; say residuals=True"):
        _ = run.residuals


@pytest.mark.parametrize(
    ("fn", "match"),
    [
        (lambda x: 3.0, "returns a vector of residuals, got 3.0"),
        (lambda x: np.ones((2, 2)), r"returns a vector of residuals, got shape \(2, 2\)"),
        (lambda x: np.ones(2, dtype=complex), "residuals must be real numbers"),
        (lambda x: np.ones(2 + (x[0] != 1.0)), "same number of residuals at every point"),
    ],
)
def test_what_is_no_vector_of_residuals_is_refused(fn: Any, match: str) -> None:
    with pytest.raises(ObjectiveError, match=match):
        zotune.minimize(fn, START, budget=20, residuals=True)


def test_the_number_of_residuals_is_checked() -> None:
    with pytest.raises(ObjectiveError, match="same number of residuals at every point, got 4 and"):
        zotune.objective(decay, 3, residuals=4, array="numpy").values(torch.zeros(1, 3))
    with pytest.raises(ConfigError, match="residuals must be True, or the number"):
        zotune.objective(decay, 3, residuals=-1)


def test_batched_and_asynchronous_functions_give_the_same_run() -> None:
    async def awaited(x: Array) -> Array:
        await asyncio.sleep(0)
        return decay(x)

    def batch(x: Array) -> Array:
        return np.stack([decay(one) for one in x])

    whole = zotune.minimize(decay, START, budget=60, residuals=True)
    told = {"residuals": 30, "array": "numpy"}
    for fn, batched in ((awaited, False), (batch, True)):
        f = zotune.objective(fn, 3, batched=batched, **told)  # type: ignore[arg-type]
        run = zotune.minimize(f, START, budget=60)
        assert torch.equal(run.best_x, whole.best_x)


def test_a_run_that_is_read_from_its_file_has_its_residuals(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    run = zotune.minimize(decay, START, budget=60, residuals=True, checkpoint=path)
    read = zotune.load_run(path)
    assert torch.equal(read.residuals, run.residuals)
    assert torch.equal(read.covariance, run.covariance)


def test_a_larger_budget_continues_at_the_answer(tmp_path: Path) -> None:
    path, f = tmp_path / "run.safetensors", Counted()
    short = zotune.minimize(f, START, budget=6, residuals=True, checkpoint=path)
    run = zotune.minimize(f, START, budget=60, residuals=True, checkpoint=path)
    assert f.calls == run.nfev
    assert run.best_loss < 0.1 * short.best_loss


def test_residuals_are_told_as_rows() -> None:
    m = zotune.Minimizer(START, budget=60, residuals=30)
    while not m.done:
        m.tell(np.stack([decay(x) for x in m.ask()]))
    whole = zotune.minimize(decay, START, budget=60, residuals=30)
    assert torch.equal(m.result.covariance, whole.covariance)
    with pytest.raises(ConfigError, match="give their number, residuals=m"):
        zotune.Minimizer(START, budget=60, residuals=True)
    with pytest.raises(ObjectiveError, match="got 7 and 30"):
        zotune.Minimizer(START, budget=60, residuals=30).tell(np.zeros((1, 7)))


def test_a_start_that_fails_now_and_then_is_tried_again() -> None:
    class Shaky(Counted):
        def __call__(self, x: Array) -> Array:
            found = super().__call__(x)
            if self.calls in (1, 2, 5, 9):
                raise FloatingPointError("no steady state")
            return found

    f = Shaky()
    run = zotune.minimize(f, START, budget=60, residuals=True, failures=FloatingPointError)
    assert f.calls == run.nfev
    assert run.failed == 4
    assert run.best_x.numpy() == pytest.approx(TRUTH, abs=0.05)


def test_noise_is_seen_and_the_answer_has_the_mean_of_several_values() -> None:
    rng = np.random.default_rng(1)

    def noisy(x: Array) -> Array:
        return decay(x) + 1e-3 * rng.standard_normal(len(TIMES))

    run = zotune.minimize(noisy, START, budget=120, residuals=True)
    assert "noise" in run.chosen
    assert run.best_x.numpy() == pytest.approx(TRUTH, abs=0.1)
    assert run.best_loss == pytest.approx((decay(run.best_x.numpy()) ** 2).sum(), abs=1e-3)


def test_the_minimum_at_a_bound_is_found() -> None:
    bounds = ([0.0, 0.0, 0.4], [5.0, 5.0, 1.0])
    run = zotune.minimize(decay, [1.0, 0.2, 0.5], budget=100, residuals=True, bounds=bounds)
    from scipy.optimize import least_squares

    found = least_squares(decay, [1.0, 0.2, 0.5], bounds=bounds, xtol=1e-12)
    assert run.best_loss == pytest.approx(2 * found.cost, rel=1e-4)
    assert run.best_x[2] == 0.4


def test_workers_send_residuals() -> None:
    from tests.evaluators.shuffled import Shuffled
    from zotune.config import parse_config
    from zotune.loop import Loop

    objective = zotune.objective(decay, 3, residuals=True, array="numpy")
    loops = [Loop(parse_config({"budget": 40}), objective, START)]
    loops.append(Loop(parse_config({"budget": 40}), objective, START, evaluator=Shuffled(0)))
    ends = [loop.advance(loop.init()) for loop in loops]
    assert torch.equal(ends[0].best_x, ends[1].best_x)


def test_a_method_of_one_s_own_is_sent_residuals() -> None:
    shapes = set()

    def lowering(start: zotune.methods.Start) -> zotune.methods.Stage[str]:
        assert start.residuals is not None
        for _ in range(5):
            rows = yield start.x + 0.1 * start.rng().standard_normal((4, start.dim))
            shapes.add(rows.shape)
        return "five rounds are enough"

    zotune.methods.register("lowering", formula="x + 0.1 z", outputs="residuals")(lowering)
    run = zotune.minimize(decay, START, budget=60, residuals=True, method="lowering")
    assert shapes == {(4, 30)}
    assert run.best_loss < run.rows[0]["loss"]
    assert "five rounds are enough" in run.message


def test_a_trial_fits_residuals() -> None:
    fit = zotune.objective(decay, 3, residuals=True, start=START, array="numpy", name="decay")
    trial = zotune.trainable(fit)({"budget": 60, "method": "auto"})
    rows = [trial.train()]
    while not rows[-1]["done"]:
        rows.append(trial.train())
    assert rows[-1]["chosen_method"] == "gauss-newton"
    assert rows[-1]["best_loss"] < 0.01
