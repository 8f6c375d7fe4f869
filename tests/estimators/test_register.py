"""An estimator of the user's own, in a few lines."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import zotune
from tests.instrument import minimize
from zotune.blocks import Block
from zotune.errors import ConfigError, DuplicateNameError
from zotune.estimators import ESTIMATORS, register


@pytest.fixture
def sign() -> str:
    @register("test-sign", formula="U sign(v) / q")
    def sign(v: Tensor, block: Block) -> Tensor:
        """The mean of the directions, each turned downhill."""
        return v.sign() / block.q

    return "test-sign"


def test_it_is_listed_and_runs(sign: str, bowl: zotune.Objective) -> None:
    assert ESTIMATORS[sign].summary == "The mean of the directions, each turned downhill."
    run = minimize(bowl, estimator=sign, q=5, budget=500, step="constant", eta=0.01)
    assert run.rows[-1]["loss"] < run.rows[0]["loss"]


def test_without_moments_it_has_no_theory_step(sign: str, bowl: zotune.Objective) -> None:
    with pytest.raises(ConfigError, match="'test-sign' declares none"):
        minimize(bowl, estimator=sign, budget=10)


def test_a_taken_name_is_refused(sign: str) -> None:
    with pytest.raises(DuplicateNameError, match="estimator 'avg' is registered already"):
        register("avg", formula="U v")(lambda v, block: v)


def test_a_linear_function_is_estimated_by_its_projection() -> None:
    """Recorded values: a change here is a change of every run."""
    run = minimize(
        zotune.objective(lambda x: x.sum(), 4, L=1.0), estimator="align", q=2, budget=2, seed=3
    )
    assert run.x.tolist() == [pytest.approx(RECORDED, abs=1e-6)]
    assert torch.dot(run.x[0], run.x[0]) == pytest.approx(-run.x.sum().item(), rel=1e-6)


RECORDED = [-0.3867894, 0.4212471, -0.1324589, -0.4416843]
