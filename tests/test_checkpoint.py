"""Checkpoints: whole or not at all, and never somebody else's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import zotune
from tests.instrument import minimize, parse_config
from tests.servers import wait_for
from zotune import updates
from zotune.core.files import write_whole
from zotune.core.state import LaneState
from zotune.errors import CheckpointError, ConfigError
from zotune.estimators import ESTIMATORS
from zotune.loop import Loop
from zotune.objectives import PROBLEMS
from zotune.runs.checkpoint import load_loop, load_state, save_loop
from zotune.updates import UPDATES


@pytest.fixture
def loop(bowl: zotune.Objective) -> Loop:
    return Loop(parse_config({"q": 2, "budget": 60, "replicates": 3}), bowl)


def test_a_state_comes_back_bit_for_bit(loop: Loop, tmp_path: Path) -> None:
    state = loop.advance(loop.init(), until=31)
    save_loop(loop, state, tmp_path / "state", note="kept")
    back, notes = load_loop(loop, tmp_path / "state")
    for field in fields(LaneState):
        mine, theirs = getattr(state.lanes[0], field.name), getattr(back.lanes[0], field.name)
        if isinstance(mine, torch.Tensor):
            assert torch.equal(mine, theirs), field.name
    assert back.ledger == state.ledger
    assert back.steps == state.steps
    assert loop.curve_rows(back) == loop.curve_rows(state)
    assert notes["note"] == "kept"
    assert notes["config"] == loop.config.model_dump()


def registered_bowl(shift: float) -> None:
    """Register a problem whose option has this default."""

    def build(dim: int = 4, shift: float = shift) -> zotune.Objective:
        return zotune.objective(lambda x: ((x - shift) ** 2).sum(), dim, L=2.0, name="moved-bowl")

    zotune.objectives.register("moved-bowl")(build)


def test_what_is_loaded_lies_where_torch_would_have_put_it(loop: Loop, tmp_path: Path) -> None:
    save_loop(loop, loop.advance(loop.init()), tmp_path / "state")
    lane = load_loop(loop, tmp_path / "state")[0].lanes[0]
    loaded = [getattr(lane, field.name) for field in fields(LaneState)]
    addresses = [each.data_ptr() for each in loaded if isinstance(each, torch.Tensor)]
    assert len(addresses) > 5
    assert all(address % 64 == 0 for address in addresses)


def test_a_checkpoint_holds_every_option_of_its_problem_also_those_left_out(tmp_path: Path) -> None:
    registered_bowl(shift=1.0)
    problem, path = {"name": "moved-bowl", "dim": 3}, tmp_path / "state"
    minimize(problem, q=3, budget=30, checkpoint=path)
    assert zotune.load_run(path).config.problem == problem | {"shift": 1.0}
    del PROBLEMS._entries["moved-bowl"]  # type: ignore[attr-defined]
    registered_bowl(shift=2.0)
    with pytest.raises(CheckpointError, match=r"'shift': 1\.0}, not {.* 'shift': 2\.0}; give each"):
        minimize(problem, q=3, budget=30, checkpoint=path)
    assert minimize(problem | {"shift": 1.0}, q=3, budget=30, checkpoint=path).spent == 30


def test_a_file_that_was_cut_short_is_refused(loop: Loop, tmp_path: Path) -> None:
    path = save_loop(loop, loop.init(), tmp_path / "state")
    content = path.read_bytes()
    for length in (0, 5, 100, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="is not a whole zotune checkpoint"):
            load_state(path)


def test_a_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    save_file({"weight": torch.ones(3)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="is not a whole zotune checkpoint"):
        load_state(tmp_path / "model.safetensors")


def test_a_checkpoint_that_lacks_a_tensor_is_refused(loop: Loop, tmp_path: Path) -> None:
    path = save_loop(loop, loop.init(), tmp_path / "state")
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys() if name != "0.best_x"}  # noqa: SIM118
    save_file(tensors, path, header)
    with pytest.raises(CheckpointError, match=r"not hold a state .* it lacks 'best_x'"):
        load_state(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no checkpoint at .*nothing"):
        load_state(tmp_path / "nothing")


def test_a_checkpoint_of_another_problem_is_refused(loop: Loop, tmp_path: Path) -> None:
    path = save_loop(loop, loop.init(), tmp_path / "state")
    larger = zotune.objective(lambda x: x.square().sum(), dim=11, L=3.0, name="bowl")
    with pytest.raises(
        CheckpointError, match="belongs to another run: it has dim=10, this run has"
    ):
        load_loop(Loop(loop.config, larger), path)


def test_a_checkpoint_of_another_format_is_refused(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zotune.runs.checkpoint.FORMAT", 99)
    path = save_loop(loop, loop.init(), tmp_path / "state")
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="has checkpoint format 99, this zotune reads 4"):
        load_state(path)


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    """A process that rewrites one file for ever is killed again and again."""
    path = tmp_path / "state"
    program = (
        "import sys; from pathlib import Path\n"
        "from zotune.core.files import write_whole\n"
        "n = 0\n"
        "while True:\n"
        "    n = (n + 1) % 10\n"
        "    write_whole(Path(sys.argv[1]), str(n).encode() * 3_000_000)\n"
    )
    for pause in (0.0, 0.02, 0.05, 0.1):
        path.unlink(missing_ok=True)
        writer = subprocess.Popen([sys.executable, "-c", program, str(path)])
        wait_for(path.exists)
        time.sleep(pause)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        content = path.read_bytes()
        assert len(content) == 3_000_000
        assert len(set(content)) == 1


def test_a_failed_write_leaves_no_litter(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with pytest.raises(OSError, match="state"):
        write_whole(tmp_path / "state", b"content")
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_a_run_with_an_estimator_that_is_not_imported_can_be_looked_at_but_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, saved = tmp_path / "run.safetensors", tmp_path / "minimizer"
    settings: dict[str, Any] = {"q": 2, "budget": 40, "step": "constant", "eta": 0.1}

    def bowl(x: torch.Tensor) -> torch.Tensor:
        return (x - 1).square().sum()

    with monkeypatch.context() as here:
        for registry in (ESTIMATORS, UPDATES):
            here.setattr(registry, "_entries", {name: registry[name] for name in registry})
        register = zotune.estimators.register
        register("halved", formula="U v / 2q")(lambda v, block: v / 2 / block.q)
        updates.register("plain", formula="x ← x − η g")(lambda g, slots, eta, t: eta * g)
        own = settings | {"estimator": "halved", "update": "plain"}
        run = zotune.minimize(bowl, torch.zeros(4), checkpoint=file, **own)
        zotune.Minimizer([0.0] * 4, **own).save(saved)
    found = zotune.load_run(file)
    assert found.best_x.tolist() == run.best_x.tolist()
    assert repr(found) == repr(run)
    with pytest.raises(CheckpointError, match="of a run with estimator 'halved', not 'avg'"):
        zotune.minimize(bowl, torch.zeros(4), checkpoint=file, estimator="avg", **settings)
    with pytest.raises(ConfigError, match="estimator 'halved' is not known"):
        zotune.Minimizer.load(saved)
