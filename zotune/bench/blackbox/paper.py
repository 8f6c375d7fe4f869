"""The paper's three deterministic problems, with 20 020 and 500 evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from zotune.bench.blackbox.counting import Function, Vector
from zotune.bench.blackbox.problems import BlackboxProblem, plain
from zotune.objectives import Objective, build_problem

NAMES, BUDGETS = ("quadratic", "logistic", "rosenbrock"), (20_020, 500)


def load(suite: str, dims: Sequence[int]) -> Iterator[BlackboxProblem]:
    """Each problem at each budget, from our start."""
    for dim in dims:
        for name in NAMES:
            objective = build_problem({"name": name, "dim": dim})
            if not isinstance(objective, Objective):
                raise TypeError(f"{name} must be a function of a vector")
            for budget in BUDGETS:
                yield BlackboxProblem(
                    name=f"{name}-{dim}-{budget}",
                    start=objective.start().numpy().astype(np.float64),
                    budget=budget,
                    opened=plain(value_of(objective)),
                    minimum=objective.minimum,
                )


def value_of(objective: Objective) -> Function:
    """f of one numpy vector."""

    def value(x: Vector) -> float:
        with torch.inference_mode():
            return float(objective.values(torch.from_numpy(x)[None])[0])

    return value
