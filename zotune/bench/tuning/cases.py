"""The paper's four problems and five of COCO's bbob-largescale, in instances.

The five are the first of each of COCO's groups: separable, moderately conditioned,
ill-conditioned, multimodal, and multimodal with weak structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from zotune.bench.blackbox.coco import optimum
from zotune.bench.blackbox.problems import require
from zotune.errors import one_of
from zotune.objectives import Objective, build_any_problem, objective

PAPER = ("quadratic", "logistic", "rosenbrock", "stochastic-logistic")
GROUPS = (1, 6, 10, 15, 20)
"""Numbers of COCO's functions."""
SMOOTH: dict[str, list[Any]] = {"q": [1, 8], "eta": [1, 4], "update": ["sgd", "nesterov"]}
STOCHASTIC: dict[str, list[Any]] = {"q": [1, 8], "eta": [0.3, 1, 3, 10]}
"""Eight configurations each; eta is a factor of the theory step, or the first of a decaying one."""


@dataclass(frozen=True)
class Size:
    """How large the problems are."""

    dim: int
    coco_dim: int
    blocks: int
    """The total is so many times the dimension."""


SIZES = {"everyday": Size(20, 20, 40), "full": Size(1000, 320, 20)}


@dataclass(frozen=True)
class TuningCase:
    """One instance of a problem, what may be spent on it, and what may be chosen."""

    problem: str
    instance: int
    total: int
    make: Callable[[], Objective]
    space: dict[str, list[Any]]
    fixed: dict[str, Any]

    @property
    def name(self) -> str:
        """Unique among all cases."""
        return f"{self.problem}-{self.instance}-{self.total}"


def cases(size: str, instances: int) -> Iterator[TuningCase]:
    """Every problem in so many instances."""
    chosen = SIZES[one_of("size", size, SIZES)]
    for name in PAPER:
        for instance in range(instances):
            yield _paper(name, instance, chosen)
    for number in GROUPS:
        for instance in range(1, instances + 1):
            yield _coco(number, instance, chosen)


def _paper(name: str, instance: int, size: Size) -> TuningCase:
    mapping = {"name": name, "dim": size.dim, "seed": instance}

    def make() -> Objective:
        built = build_any_problem(mapping)
        assert isinstance(built, Objective)
        return built

    stochastic = name == "stochastic-logistic"
    return TuningCase(
        problem=name,
        instance=instance,
        total=size.blocks * size.dim,
        make=make,
        space=STOCHASTIC if stochastic else SMOOTH,
        fixed={"update": "sgd", "step": "sqrt-decay" if stochastic else "theory"},
    )


def _coco(number: int, instance: int, size: Size) -> TuningCase:
    def make() -> Objective:
        cocoex = require("cocoex")
        cocoex.log_level("error")
        options = f"dimensions:{size.coco_dim} function_indices:{number}"
        suite = cocoex.Suite("bbob-largescale", f"instances:{instance}", options)
        function = suite.get_problem(0)
        start = np.array(function.initial_solution)
        found = objective(
            function,
            size.coco_dim,
            start=start,
            optimum=optimum(function),
            array="numpy",
            name=f"f{number}",
        )
        object.__setattr__(found, "suite", suite)  # the function lives in it
        return found

    return TuningCase(
        problem=f"bbob f{number}",
        instance=instance,
        total=size.blocks * size.coco_dim,
        make=make,
        space=SMOOTH,
        fixed={"update": "sgd", "step": "theory"},
    )
