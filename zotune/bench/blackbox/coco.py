"""COCO's functions: ``bbob-largescale`` and ``bbob-noisy``, 100·d evaluations."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from zotune.bench.blackbox.counting import Function, Vector
from zotune.bench.blackbox.problems import BlackboxProblem, TrueValues, require

Make = Callable[[], Any]
"""Makes a suite of COCO."""
DEVIATION = 2.0
"""Solutions lie within [−5, 5]; COCO's own experiments start CMA-ES with this deviation."""
LOGGED = "number_target_triggers: 200 number_evaluation_triggers: 1 precision_f: 15"


def load(suite: str, dims: Sequence[int], instance: int = 1) -> Iterator[BlackboxProblem]:
    """The functions of these dimensions, from the start that COCO proposes."""
    cocoex = require("cocoex")
    cocoex.log_level("error")
    for dim in dims:
        options = f"dimensions:{dim} instance_indices:{instance}"
        make = partial(cocoex.Suite, f"bbob-{suite}", "", options)
        for at in range(len(make())):
            yield _problem(cocoex, make, at, noisy=suite == "noisy")


def _problem(cocoex: Any, make: Make, at: int, *, noisy: bool) -> BlackboxProblem:
    functions = make()
    function = functions.get_problem(at)
    name, start = str(function.id), np.array(function.initial_solution)
    function.free()

    @contextmanager
    def opened() -> Iterator[tuple[Function, None]]:
        function = functions.get_problem(at)
        try:
            yield function, None
        finally:
            function.free()

    return BlackboxProblem(
        name=name,
        start=start,
        budget=100 * len(start),
        opened=logged(cocoex, make, at) if noisy else opened,
        minimum=0.0 if noisy else None,
        deviation=DEVIATION,
    )


def logged(cocoex: Any, make: Make, at: int) -> Callable[[], Any]:
    """A noisy function whose noise-free values COCO's logger writes beside it.

    A new suite starts its random numbers anew, so that every run sees the same noise.
    """

    @contextmanager
    def opened() -> Iterator[tuple[Function, TrueValues]]:
        with tempfile.TemporaryDirectory() as folder:
            functions = make()
            function = functions.get_problem(at)
            observe(cocoex, function, folder)
            freed = False

            def best() -> list[tuple[int, float]]:
                nonlocal freed
                function.free()  # the log is complete when the function is closed
                freed = True
                return improvements(Path(folder))

            def value(x: Vector) -> float:
                return true_value(cocoex, functions, at, x)

            try:
                yield function, TrueValues(best, value)
            finally:
                if not freed:
                    function.free()

    return opened


def observe(cocoex: Any, function: Any, folder: str) -> None:
    """Let COCO's logger write what is evaluated to a folder."""
    options = f"outer_folder: {folder} result_folder: log {LOGGED}"
    function.observe_with(cocoex.Observer("bbob", options))


def true_value(cocoex: Any, functions: Any, at: int, x: Vector) -> float:
    """The noise-free value above the optimum at one point, from a function of its own."""
    with tempfile.TemporaryDirectory() as folder:
        function = functions.get_problem(at)
        observe(cocoex, function, folder)
        function(x)
        function.free()
        return improvements(Path(folder))[-1][1]


def improvements(folder: Path) -> list[tuple[int, float]]:
    """(evaluations, best noise-free value above the optimum) as COCO's logger wrote them."""
    (log,) = (path for path in folder.glob("**/*.dat"))
    rows = [line.split() for line in log.read_text().splitlines() if line[:1] not in ("%", "")]
    return [(int(row[0]), float(row[2])) for row in rows]


def optimum(function: Any) -> float:
    """f at the optimum of a deterministic function; COCO writes the point to the current folder."""
    import contextlib

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        function._best_parameter("print")
        (written,) = Path().iterdir()
        return float(function(np.loadtxt(written)))
