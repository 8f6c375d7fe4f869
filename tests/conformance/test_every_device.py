"""Every entry keeps its tensors on the device of the objective: tried on one that is pretended.

``make gpu`` runs all of this folder on CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import zotune
from tests.devices import pretending
from tests.instrument import parse_config
from tests.pretended import Elsewhere
from tests.weights.toy import Toy
from zotune.blocksizes import BLOCK_SIZES
from zotune.core.names import STATE_FILE
from zotune.directions import DIRECTIONS
from zotune.estimators import ESTIMATORS
from zotune.loop import Loop
from zotune.objectives import PROBLEMS, build_problem
from zotune.runs.checkpoint import load_loop, save_loop
from zotune.steps import STEPS, THEORY
from zotune.updates import UPDATES
from zotune.weights.scalars import ScalarLog, rebuild

ESTIMATOR = pytest.mark.parametrize("estimator", list(ESTIMATORS))
KIND = pytest.mark.parametrize("directions", list(DIRECTIONS))
CONSTANT = {"step": "constant", "eta": 1e-3}
VECTORS = [name for name, entry in PROBLEMS.items() if not entry.weights and not entry.settings]


def eta_of(step: str) -> float | None:
    """1e-3 for steps that must be told one."""
    return 1e-3 if STEPS[step].size is not None else None


@pytest.fixture
def device() -> Iterator[torch.device]:
    with pretending() as device:
        yield device


def resumed(loop: Loop, folder: Path) -> Any:
    """The state at the end of a run that is saved and loaded on its way."""
    path = folder / STATE_FILE
    save_loop(loop, loop.advance(loop.init(), 12), path)
    state, _ = loop.report(loop.advance(load_loop(loop, path)[0]))
    save_loop(loop, state, path)
    return state


def test_the_pretended_device_refuses_what_cuda_refuses(device: torch.device) -> None:
    there = torch.ones(3, device=device)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        there + torch.ones(3)
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        there.numpy()
    assert (there + 1).device == device
    assert (there.cpu() + torch.ones(3)).tolist() == [2.0, 2.0, 2.0]


@ESTIMATOR
@KIND
@pytest.mark.parametrize("settings", [{}, {"block_bytes": 1}], ids=["dense", "replayed"])
def test_vectors_stay_on_their_device(
    device: torch.device,
    estimator: str,
    directions: str,
    settings: dict[str, Any],
    tmp_path: Path,
) -> None:
    bowl = zotune.objective(lambda x: (x**2).sum(), 6, start=[1.0] * 6, L=2.0, device=device)
    told = {"estimator": estimator, "directions": directions, "q": 3, "budget": 24} | CONSTANT
    loop = Loop(parse_config(told | {"replicates": 2} | settings), bowl)
    assert isinstance(resumed(loop, tmp_path).x, Elsewhere)


@pytest.mark.parametrize("problem", VECTORS)
def test_problems_stay_on_their_device(device: torch.device, problem: str, tmp_path: Path) -> None:
    objective = build_problem({"name": problem, "dim": 8}, device=device)
    loop = Loop(parse_config({"q": 3, "budget": 24, "diagnostics": True}), objective)
    assert isinstance(resumed(loop, tmp_path).x, Elsewhere)


@ESTIMATOR
@KIND
@pytest.mark.parametrize("memory", ["fast", "lean"])
def test_weights_stay_on_their_device(
    device: torch.device, estimator: str, directions: str, memory: str, tmp_path: Path
) -> None:
    told = {"estimator": estimator, "directions": directions, "q": 3, "budget": 24}
    remembers = ESTIMATORS[estimator].remember is not None
    memory = "fast" if remembers else memory  # lean memory has no room for a vector
    loop = Loop(parse_config(told | CONSTANT | {"memory": memory}), Toy())
    resumed(loop, tmp_path)
    if remembers:  # of which there is no scalar log
        return
    rebuilt = Toy()
    rebuild(rebuilt, ScalarLog.load(tmp_path))
    for name, weight in loop.objective.trained.items():
        assert isinstance(weight, Elsewhere)
        assert torch.equal(rebuilt.trained[name], weight)


OTHERS = [
    *({"update": name} for name in UPDATES),
    *({"step": name, "eta": eta_of(name)} for name in STEPS if name != THEORY),
    *({"q": {"rule": name, "most": 3}} for name in BLOCK_SIZES),
]


@pytest.mark.parametrize("told", OTHERS, ids=str)
def test_updates_steps_and_block_sizes_run_on_a_device_in_both_worlds(
    device: torch.device, told: dict[str, Any], tmp_path: Path
) -> None:
    config = parse_config({"q": 3, "budget": 24} | CONSTANT | told)
    bowl = zotune.objective(lambda x: (x**2).sum(), 6, start=[1.0] * 6, device=device)
    assert isinstance(resumed(Loop(config, bowl), tmp_path).x, Elsewhere)
    on_weights = Loop(config, Toy())
    resumed(on_weights, tmp_path)
    assert all(isinstance(one, Elsewhere) for one in on_weights.objective.trained.values())


def test_a_descent_that_chooses_everything_runs_on_a_device(device: torch.device) -> None:
    bowl = zotune.objective(lambda x: (x**2).sum(), 6, start=[1.0] * 6, device=device)
    run = zotune.minimize(bowl, budget=100)
    assert isinstance(run.x, Elsewhere)
    assert run.best_loss < 1e-6
