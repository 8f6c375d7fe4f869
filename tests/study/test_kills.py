"""Studies whose driver is killed: no trial that has ended runs again, and one count everywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.callbacks.conftest import runs
from tests.conftest import QUIET
from tests.marked import marked, new_mark
from tests.servers import wait_for
from zotune.core.names import ACCOUNT_TAG
from zotune.study.past import past_of

COUNTED = """
import os
import sys
import time
import numpy as np
import zotune

@zotune.methods.register("compass", formula="x ± h eᵢ; h is halved where none is lower")
def compass(start):
    x, f, h = start.x, start.value, 0.5 * start.reach
    while h.max() > 1e-300:
        points = np.concatenate([x + np.diag(h), x - np.diag(h)])
        values = yield points
        if values.min() < f:
            x, f = points[values.argmin()], values.min()
        else:
            h = h / 2

def trial():
    '''The trial that calls, found from outside: no part of zotune has to tell it.'''
    frame = sys._getframe()
    while frame is not None:
        found = getattr(frame.f_locals.get("self"), "_trial_info", None)
        if found is not None:
            return found.trial_id
        frame = frame.f_back
    return "none"

@zotune.objectives.register("counted")
def counted(dim: int = 6):
    def value(x):
        file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, (trial() + "\\n").encode())
        os.close(file)
        time.sleep(0.002)
        return ((x - 1) ** 2).sum()
    return zotune.objective(value, dim, L=2.0, optimum=0.0)
"""
BASE: dict[str, Any] = {
    "name": "k",
    "problem": {"name": "counted"},
    "budget": 240,
    "report_every": 24,
    "count": "evaluations",
    "fixed": {"estimator": "align", "step": "constant", "q": 4, "difference": "forward"},
    "resources": {"cpu": 1},
}
DRAWN: dict[str, Any] = {"space": {"eta": {"loguniform": [0.02, 0.8]}}}
LISTED: dict[str, Any] = {"space": {"eta": [0.05, 0.1, 0.2, 0.3, 0.4, 0.6]}}
RANDOM = DRAWN | {"search": {"algorithm": "random", "trials": 8}}
OPTUNA = DRAWN | {"search": {"algorithm": "optuna", "trials": 7}}
RACE = LISTED | {"total": 1400, "search": {"algorithm": "race", "auto": False}, "budget": 1400}
REFINED: dict[str, Any] = {
    "budget": 60,
    "report_every": 20,
    "replicates": 9,
    "space": {"q": [1, 6], "eta": [1, 1.5, 2]},
    "fixed": {**BASE["fixed"], "step": "theory", "mu": 1e-6, "update": "sgd"},
    "claims": [{"name": "a", "says": "Blocks help.", "not_rising": "q", "within": 0.05}],
    "tuning": {"over": "eta", "replicates": 3, "theory": 1},
}
REFINED["fixed"].pop("q")
DAILY = ("optuna", "refined grid", "methods")
KILLED_AT = {"refined grid": 4500}
"""When to kill a study, in calls of its function, if not after 500."""
METHODS: dict[str, Any] = {
    "fixed": {},
    "space": [
        {"method": ["auto", "lbfgsb", "compass"]},
        {"estimator": ["align"], "q": [4], "step": ["constant"], "eta": [0.1, 0.3]},
    ],
}
KINDS: dict[str, dict[str, Any]] = {
    "optuna": OPTUNA | {"total": 1300},
    "grid": LISTED,
    "grid with a total": LISTED | {"total": 1100},
    "random": RANDOM,
    "optuna without a total": OPTUNA,
    "asha": RANDOM | {"scheduler": "asha"},
    "median": RANDOM | {"scheduler": "median"},
    "pbt": {"space": {"eta": [0.02, 0.1, 0.3, 0.6]}, "scheduler": "pbt"},
    "pbt with a total": {"space": {"eta": [0.02, 0.1, 0.3, 0.6]}, "scheduler": "pbt", "total": 720},
    "race": RACE,
    "refined grid": REFINED,
    "methods": METHODS,
}


DYING = """
import os
import signal
import zotune

def write(name, mode=0):
    file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | mode)
    os.write(file, b"call\\n")
    os.close(file)

@zotune.objectives.register("dying")
def dying(dim: int = 6):
    def value(x):
        write(FILE)
        if os.path.getsize(FILE) > 5 * 150:
            try:
                write(FILE + "-died", os.O_EXCL)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return ((x - 1) ** 2).sum()
    return zotune.objective(value, dim, L=2.0, optimum=0.0)
"""


def calls(folder: Path) -> Counter[str]:
    """How often each trial has called the function, by the function's own count."""
    file = folder / "count"
    return Counter(file.read_text().split()) if file.exists() else Counter()


def started(folder: Path, uri: str, *words: str, **mark: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "zotune.cli", "run", "k.yaml", "--import", "counted.py"]
    options = ["--storage", "out", "--tracking-uri", uri, "--json", *words]
    with (folder / "output").open("w") as output, (folder / "errors").open("w") as errors:
        return subprocess.Popen(
            [*program, *options],
            cwd=folder,
            env={k: v for k, v in os.environ.items() if k not in QUIET} | mark,
            stdout=output,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=pytest.mark.slow if k in DAILY else pytest.mark.long) for k in KINDS],
)
def test_a_killed_study_runs_nothing_again_that_had_ended_and_counts_as_its_function_does(
    tmp_path: Path, store: str, kind: str
) -> None:
    (tmp_path / "counted.py").write_text(f"FILE = {str(tmp_path / 'count')!r}\n{COUNTED}")
    study, mark = BASE | KINDS[kind], new_mark()
    (tmp_path / "k.yaml").write_text(yaml.safe_dump(study))
    killed = started(tmp_path, store, **mark)
    wait_for(lambda: calls(tmp_path).total() >= KILLED_AT.get(kind, 500))
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    wait_for(lambda: marked(mark) == [])
    (folder,) = (f for f in (tmp_path / "out" / "k").iterdir() if (f / "launch.json").is_file())
    over, before = {name for name, past in past_of(folder).items() if past.over}, calls(tmp_path)
    resumed = started(tmp_path, store, "--resume")
    assert resumed.wait() == 0, (tmp_path / "errors").read_text()
    after, told = calls(tmp_path), json.loads((tmp_path / "output").read_text())
    assert {name: after[name] for name in over} == {name: before[name] for name in over}
    spent = told["spent"]
    assert spent["charged"] + spent["monitored"] + spent["repeated"] == after.total()
    assert spent["charged"] == spent["evaluations"] <= study.get("total", after.total())
    assert spent["trials"] == told["trials"] == len(after)
    (summary,) = runs(store, "k", "summary").values()
    assert json.loads(summary.data.tags[ACCOUNT_TAG]) == spent
    trials = runs(store, "k").values()
    assert {run.info.status for run in trials} == {"FINISHED"}
    assert len(trials) == len(after)
    assert sum(run.data.metrics.get("final_repeated", 0) for run in trials) == spent["repeated"]


@pytest.mark.slow
def test_what_the_workers_of_trials_evaluate_again_is_counted_once(
    tmp_path: Path, store: str
) -> None:
    (tmp_path / "counted.py").write_text(f"FILE = {str(tmp_path / 'count')!r}\n{DYING}")
    study = BASE | {"problem": {"name": "dying"}, "budget": 120, "space": {"eta": [0.1, 0.2, 0.3]}}
    study["resources"] = {"cpu": 0.5, "workers": 2, "worker": {"cpu": 0.25}}
    (tmp_path / "k.yaml").write_text(yaml.safe_dump(study))
    assert started(tmp_path, store).wait() == 0, (tmp_path / "errors").read_text()
    spent = json.loads((tmp_path / "output").read_text())["spent"]
    assert (tmp_path / "count-died").exists()
    assert spent["repeated"] > 0
    assert spent["charged"] + spent["monitored"] + spent["repeated"] == calls(tmp_path).total()
    trials = runs(store, "k").values()
    assert sum(run.data.metrics.get("final_repeated", 0) for run in trials) == spent["repeated"]
