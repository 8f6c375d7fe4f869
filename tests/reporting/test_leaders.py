"""Who is ahead when a part of the budget is spent."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from zotune.results.configurations import configurations
from zotune.results.leaders import leaders
from zotune.results.trial import Course, Trial


def trial(seed: int, q: int, gaps: list[float]) -> Trial:
    config: dict[str, Any] = {
        "problem": {"name": "quadratic", "seed": seed},
        "estimator": "avg",
        "q": q,
        "budget": 1000,
    }
    curve = pd.DataFrame(
        {"spent": [0, 25, 100, 1000], "loss": gaps, "loss_std": [0.0] * 4, "gap": gaps}
    )
    row = {"spent": 1000, "loss": gaps[-1], "gap": gaps[-1]}
    return Trial(f"{seed}-{q}", f"{seed}-{q}", "exhausted", config, row, lambda: Course(curve))


def test_the_leader_changes_with_the_budget_and_is_a_geometric_mean_over_instances() -> None:
    trials = [
        trial(0, 1, [8.0, 1.0, 1.0, 1.0]),
        trial(1, 1, [8.0, 4.0, 4.0, 4.0]),
        trial(0, 10, [8.0, 8.0, 2.0, 0.1]),
        trial(1, 10, [8.0, 8.0, 2.0, 0.4]),
    ]
    early, middle, late = leaders(configurations(trials))
    assert (early.spent, early.name, early.instances, early.second) == (25, "q=1", 2, "q=10")
    assert (early.value, early.ratio) == (pytest.approx(2.0), pytest.approx(4.0))
    assert (middle.spent, middle.ratio) == (100, pytest.approx(1.0))
    assert (late.spent, late.name, late.value) == (1000, "q=10", pytest.approx(0.2))


def test_a_configuration_that_lacks_an_instance_leads_nothing() -> None:
    trials = [
        *(trial(seed, 1, [8.0, 4.0, 4.0, 4.0]) for seed in (0, 1)),
        *(trial(seed, 10, [8.0, 5.0, 5.0, 5.0]) for seed in (0, 1)),
        trial(0, 100, [8.0, 0.1, 0.1, 0.1]),
    ]
    assert [one.name for one in leaders(configurations(trials))] == ["q=1"] * 3
    assert not list(leaders(configurations(trials[:2])))
