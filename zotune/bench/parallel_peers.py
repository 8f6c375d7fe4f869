"""The same evaluations by others: SciPy's processes, EvoTorch's actors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from logging import WARNING, getLogger
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch import Tensor

SCIPY, EVOTORCH = "SciPy differential_evolution(workers=)", "EvoTorch num_actors="
DIM, MEMBERS, GENERATIONS = 20, 32, 5

Peer = Callable[[Callable[[Tensor], float], int], AbstractContextManager[Callable[[], object]]]


def installed() -> dict[str, Peer]:
    """The peers that can be imported, by name."""
    peers: dict[str, tuple[str, Peer]] = {SCIPY: ("scipy", scipy), EVOTORCH: ("evotorch", evotorch)}
    return {name: peer for name, (module, peer) in peers.items() if find_spec(module)}


@contextmanager
def scipy(fn: Callable[[Tensor], float], workers: int) -> Iterator[Callable[[], object]]:
    """Five generations of 32 members; the processes are started once."""
    optimize: Any = import_module("scipy.optimize")
    bounds = [(-1.0, 1.0)] * DIM
    first = np.random.default_rng(0).uniform(-1, 1, (MEMBERS, DIM))
    with get_context("spawn").Pool(workers) as pool:
        yield lambda: optimize.differential_evolution(
            partial(_on_array, fn),
            bounds,
            init=first,
            maxiter=GENERATIONS - 1,
            tol=0,
            polish=False,
            updating="deferred",
            workers=pool.map,
            rng=0,
        )


def _on_array(fn: Callable[[Tensor], float], x: Any) -> float:
    return fn(torch.from_numpy(np.ascontiguousarray(x)))


@contextmanager
def evotorch(fn: Callable[[Tensor], float], workers: int) -> Iterator[Callable[[], object]]:
    """Five generations of 32 members of separable NES."""
    from zotune.clusters.own_ray import own_ray

    core: Any = import_module("evotorch")
    algorithms: Any = import_module("evotorch.algorithms")
    getLogger("evotorch").setLevel(WARNING)  # it tells of every problem on standard output
    with own_ray(cpus=4):
        problem = core.Problem(
            "min",
            partial(_on_tensor, fn),
            solution_length=DIM,
            initial_bounds=(-1, 1),
            dtype=torch.float64,
            num_actors=workers if workers > 1 else 0,
        )
        search = algorithms.SNES(problem, popsize=MEMBERS, stdev_init=0.1)
        yield partial(search.run, GENERATIONS)
        if workers > 1:
            problem.kill_actors()


def _on_tensor(fn: Callable[[Tensor], float], x: Tensor) -> Tensor:
    return torch.tensor(fn(x.detach()), dtype=torch.float64)
