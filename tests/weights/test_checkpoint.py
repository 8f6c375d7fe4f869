"""Weights and steps on disk, and the scalar log from which weights are built again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.instrument import parse_config
from tests.weights.models import TinyQwen, bits
from tests.weights.toy import Toy, assert_same, settings
from zotune.core.names import SCALARS_FILE, STATE_FILE
from zotune.errors import CheckpointError
from zotune.loop import Loop
from zotune.runs.checkpoint import load_loop, save_loop
from zotune.runs.run import load_run
from zotune.weights.scalars import ScalarLog, rebuild

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])


def loop_for(objective: Any, **changes: Any) -> Loop:
    return Loop(parse_config(settings(**changes)), objective)


@DTYPES
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_resumed_run_is_bit_for_bit_the_unbroken_one(
    tmp_path: Path, dtype: torch.dtype, momentum: float
) -> None:
    whole = loop_for(TinyQwen(dtype), momentum=momentum, report_every=9)
    state = whole.advance_to_report(whole.init())
    save_loop(whole, state, tmp_path / STATE_FILE, sent=3)
    end, row = whole.report(whole.advance(state))

    resumed = loop_for(TinyQwen(dtype), momentum=momentum, report_every=9)
    found, notes = load_loop(resumed, tmp_path / STATE_FILE)
    assert_same(found, state)
    assert notes["sent"] == 3
    again, same = resumed.report(resumed.advance(found))
    assert bits(resumed.objective) == bits(whole.objective)
    assert_same(again, end)
    assert same == row
    assert resumed.iterate.log == whole.iterate.log


@DTYPES
@pytest.mark.parametrize(
    "changes",
    [{"momentum": 0.5}, {"directions": "rademacher"}, {"embedding_rows": "all"}, {}],
)
def test_weights_are_built_again_from_the_scalar_log(
    tmp_path: Path, dtype: torch.dtype, changes: dict[str, Any]
) -> None:
    loop = loop_for(TinyQwen(dtype), estimator="align", **changes)
    save_loop(loop, loop.advance(loop.init()), tmp_path / STATE_FILE)
    assert (tmp_path / SCALARS_FILE).stat().st_size < 2000
    fresh = TinyQwen(dtype)
    assert bits(fresh) != bits(loop.objective)
    rebuild(fresh, ScalarLog.load(tmp_path / SCALARS_FILE))
    assert bits(fresh) == bits(loop.objective)


def test_a_scalar_log_of_another_model_is_refused(tmp_path: Path) -> None:
    loop = loop_for(Toy())
    path = loop.iterate.scalars().save(tmp_path / SCALARS_FILE)
    with pytest.raises(CheckpointError, match="belongs to 161 weights in float32 on cpu"):
        rebuild(TinyQwen(), ScalarLog.load(path))
    path.write_text("[]")
    with pytest.raises(CheckpointError, match="is not a scalar log"):
        ScalarLog.load(path)


def test_a_checkpoint_is_a_run_with_its_weights(tmp_path: Path) -> None:
    loop = loop_for(TinyQwen(torch.bfloat16))
    state, row = loop.report(loop.advance(loop.init()))
    save_loop(loop, state, tmp_path / STATE_FILE)
    run = load_run(tmp_path)
    assert run.rows[-1] == row
    assert run.curve.spent.iloc[-1] == 30
    weights = run.weights()
    assert weights.keys() == loop.objective.trained.keys()
    assert all(torch.equal(weights[n], p) for n, p in loop.objective.trained.items())
    assert "weights.score.weight" in load_file(tmp_path / STATE_FILE)


def test_a_run_on_weights_says_what_it_was_charged(tmp_path: Path) -> None:
    """Two directions cost three evaluations; one more evaluation buys nothing."""
    loop = loop_for(Toy(), q=2, budget=31, count="evaluations")
    state, row = loop.report(loop.advance(loop.init()))
    save_loop(loop, state, tmp_path / STATE_FILE)
    run = load_run(tmp_path)
    assert run.spent == row["spent"] == 30
    assert "exhausted after 30 of 31 evaluations" in repr(run)
    assert run.rows[-1]["spent"] == 31


def test_checkpoints_of_another_model_or_cut_short_are_refused(tmp_path: Path) -> None:
    path = tmp_path / STATE_FILE
    loop = loop_for(Toy())
    save_loop(loop, loop.init(), path)
    with pytest.raises(CheckpointError, match="belongs to another run: it has dim=161"):
        load_loop(loop_for(TinyQwen()), path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match="is not a whole zotune checkpoint"):
        load_loop(loop_for(Toy()), path)
    assert not list(tmp_path.glob(".*tmp"))


CHILD = """
import sys
from pathlib import Path
from tests.instrument import parse_config
from tests.weights.toy import Toy, settings
from zotune.runs.checkpoint import load_loop, save_loop
from zotune.loop import Loop
path = Path(sys.argv[1])
loop = Loop(parse_config(settings(budget=600, report_every=30)), Toy())
state = load_loop(loop, path)[0] if path.exists() else loop.init()
while loop.status(state) == "running":
    state, row = loop.report(loop.advance_to_report(state))
    save_loop(loop, state, path)
    print(row["spent"], flush=True)
"""


@pytest.mark.slow
def test_a_run_that_is_killed_ends_where_the_unbroken_one_does(tmp_path: Path) -> None:
    path = tmp_path / STATE_FILE
    command = [sys.executable, "-c", CHILD, str(path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert killed.stdout is not None
    for _ in range(5):
        killed.stdout.readline()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert 0 < json.loads(_header(path))["lanes"][0]["ledger"]["queries"] < 600
    subprocess.run(command, check=True, capture_output=True, env=environment)
    whole = loop_for(Toy(), budget=600, report_every=30)
    state = whole.init()
    while whole.status(state) == "running":
        state, row = whole.report(whole.advance_to_report(state))
    found = load_run(path)
    assert found.rows[-1] == row
    assert all(torch.equal(w, whole.objective.trained[n]) for n, w in found.weights().items())


def _header(path: Path) -> str:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return str(file.metadata()["zotune"])
