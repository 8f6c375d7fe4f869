"""The smoothing descent: what its covariance learns from points that won and lost."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from zotune.methods import Start
from zotune.methods.parts.oracle import Oracle
from zotune.methods.parts.smoothing import smoothing

Array = npt.NDArray[np.float64]


def banana(x: Array) -> Array:
    return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(1)


def ellipsoid(x: Array) -> Array:
    return np.asarray(x**2 @ 10.0 ** np.linspace(0, 6, x.shape[1]))


def smoothed(f: object, x: Array, budget: int, seed: int, population: int | None = None) -> float:
    """The value at the centre after so many evaluations."""
    o = Oracle(Start(x, np.inf, left=budget, budget=budget))
    rng = np.random.default_rng(seed)
    stages = smoothing(
        o, x, 0.2, np.ones(len(x)), rng, spend=budget, until=0, population=population
    )
    points = next(stages)
    try:
        while True:
            points = stages.send(f(points))  # type: ignore[operator]
    except StopIteration as ended:
        return float(f(ended.value[0][None])[0])  # type: ignore[operator]


def test_directions_that_lost_are_left() -> None:
    """Without negative weights the median is 4.4; the package cma, which has them, has 2.9."""
    assert np.median([smoothed(banana, np.zeros(10), 2000, seed) for seed in range(6)]) < 3.3


@pytest.mark.parametrize(("dim", "population"), [(2, None), (2, 40), (12, None), (301, 12)])
def test_the_covariance_stays_positive(dim: int, population: int | None) -> None:
    begins = float(ellipsoid(np.ones((1, dim)))[0])
    for seed in range(5):  # in two dimensions until the values are 1e-300
        ends = smoothed(ellipsoid, np.ones(dim), 6000, seed, population)
        assert 0 <= ends < 0.1 * begins
