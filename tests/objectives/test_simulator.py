"""The stand-in for a simulator is a quadratic that takes its time."""

from __future__ import annotations

from time import monotonic

import pytest
import torch

from zotune.errors import ConfigError
from zotune.objectives import build_problem
from zotune.study import Study


def test_its_values_are_the_quadratics_one_point_after_the_other() -> None:
    slow = build_problem({"name": "simulator", "dim": 4, "seconds": 0.01, "seed": 3})
    plain = build_problem({"name": "quadratic", "dim": 4, "condition": 10.0, "seed": 3})
    points = torch.stack([plain.start(), plain.start() + 1])
    began = monotonic()
    values = slow.values(points)
    assert monotonic() - began >= 0.02
    assert values.tolist() == pytest.approx(plain.values(points).tolist())
    assert (slow.L, slow.minimum) == (plain.L, plain.minimum)
    assert torch.equal(slow.start(), plain.start())


@pytest.mark.parametrize("seconds", [-1, True, "slow", 60])
def test_a_wait_that_is_none_is_refused(seconds: object) -> None:
    with pytest.raises(ConfigError, match=r"problem\.seconds must be a number from 0 to 60"):
        build_problem({"name": "simulator", "seconds": seconds})


def test_a_study_may_give_every_trial_so_much_wall_time() -> None:
    study = Study(
        name="timed",
        problem={"name": "simulator", "dim": 4},
        budget=100,
        space={"q": [1, 2]},
        stop={"trial_seconds": 2.5},
    )
    assert study.stop.trial_seconds == 2.5
