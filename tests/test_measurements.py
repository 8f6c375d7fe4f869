"""Single estimates, measured beside the formulas."""

from __future__ import annotations

from math import sqrt

import pytest
import torch

from zotune.addresses import replicate_keys
from zotune.directions import DIRECTIONS
from zotune.theory.measurements import errors_over, gram_deviation, mean_squared_error


@pytest.mark.parametrize("estimator", ["avg", "align", "align-diag"])
@pytest.mark.parametrize("directions", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("q", [1, 6, 16])
def test_measured_errors_are_those_of_the_formulas(estimator: str, directions: str, q: int) -> None:
    found = mean_squared_error(estimator, 16, q, directions=directions, draws=1500)
    assert found.agrees, found


def test_a_wrong_formula_would_be_seen() -> None:
    found = mean_squared_error("avg", 16, 4, draws=1500)
    assert found.formula == 17 / 4
    assert abs(found.mse - 16 / 4) > 2 * found.uncertainty


def test_errors_are_measured_for_every_block_that_fits() -> None:
    found = errors_over([10, 40], [1, 10, 40])
    assert [(e.dim, e.q) for e in found if e.estimator == "align"] == [
        (10, 1),
        (10, 10),
        (40, 1),
        (40, 10),
        (40, 40),
    ]
    assert all(e.mse < 1e-9 for e in found if e.estimator == "align" and e.q == e.dim)
    assert all(e.agrees for e in found)


@pytest.mark.parametrize("dim", [10, 100, 1000, 10_000])
def test_gram_matrices_come_near_the_identity_as_the_root_of_q_over_d(dim: int) -> None:
    found = gram_deviation(dim, 10, draws=20)
    assert found.scale == sqrt(10 / dim)
    assert 1.0 < found.deviation / found.scale < 3.5
    assert len(found.typical) == len(found.typical[0]) == 10


def test_the_projection_differs_from_the_average_by_the_same_number() -> None:
    keys = replicate_keys("measurements", 0, range(1))
    rows = torch.empty(1, 5, 40, dtype=torch.float64)
    DIRECTIONS["gaussian"].sampler(40, keys, torch.device("cpu")).fill(rows, 0, range(5), range(40))
    u = rows[0].T
    projection = u @ torch.linalg.inv(u.T @ u) @ u.T
    norm = float(torch.linalg.matrix_norm(projection - u @ u.T / 40, 2))
    assert gram_deviation(40, 5, draws=1).deviation == pytest.approx(norm)
