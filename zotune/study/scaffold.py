"""``zotune init``: write a study file and a problem file that can be run unchanged."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import yaml

from zotune.errors import ConfigError
from zotune.objectives import PROBLEMS
from zotune.registry import NAME
from zotune.study.studyfile import shipped_studies
from zotune.study.user_function import UserFunction, find_function

EXAMPLE_DIM = 10
LARGEST_BLOCK, STEPS, REPLICATES, ESTIMATORS = 100, 50, 3, ("avg", "align")

STUDY = """\
# A study: one question, one problem, a budget, and what is compared under it. If you want the
# minimum and no comparison, call zotune.minimize(f, x0, budget=N) in Python instead.
# To run it: {command}
name: {name}
question: Which estimator, with how many queries a step (q), lowers my function most?

# The function, by the name under which {problem} registers it, and its options.
problem: {{name: {name}, dim: {dim}}}

# How many evaluations of the function each run may spend. There are {trials} trials of
# {replicates} runs each, which differ in their random directions: about {total} evaluations in all.
budget: {budget}
count: evaluations
replicates: {replicates}

# Every combination of these lists is a trial. `zotune list` shows what else can be named.
space:
  estimator: [{estimators}]
  q: {blocks}

# Settings that all trials share. If your function is noisy, set mu, the distance between points
# whose values are compared, so that the function changes by far more than its noise:
# fixed: {{mu: 0.1, difference: central}}

# Each trial takes one CPU; as many run at a time as this machine has.
resources: {{cpu: 1, gpu: 0}}
"""

PROBLEM = '''\
"""The problem of the study {name}. To run it: {command}"""

{imports}

{example}
@zotune.objectives.register("{name}", formula="f(x)")
def problem(dim: int = {dim}) -> zotune.Objective:
    """{summary}"""
    # Its parameters can be set under `problem` in the study file; add your own.
    return zotune.objective(
        f,
        dim,{array}
        # start=[0.5] * dim,  # where runs begin; at zero unless given
        # bounds=(0.0, 1.0),  # points stay inside
        # failures=(RuntimeError,),  # exceptions that are rejected points, not the end of a trial
    )
'''

EXAMPLE = '''
def f(x):
    """Takes a numpy array of shape (dim,), returns a number; smaller is better."""
    weights = np.arange(1, len(x) + 1) / len(x)
    return np.sum(weights * (x - 1) ** 2)

'''


@dataclass(frozen=True)
class Written:
    """The written files, and the command that runs them."""

    study: Path
    problem: Path

    @property
    def command(self) -> str:
        """The command to run the study."""
        return shlex.join(["zotune", "run", str(self.study), "--import", str(self.problem)])


def write(name: str, *, function: str | None = None, dim: int | None = None) -> Written:
    """Write a study and its problem into the current folder; neither may be there already.

    Args:
        name: name of the study, its problem and the files.
        function: ``FILE.py:NAME`` of the user's function; default: an example.
        dim: its dimension.
    """
    _require_new(name)
    if function is not None and dim is None:
        raise ConfigError(f"--function {function} needs its dimension; add --dim N")
    size = EXAMPLE_DIM if dim is None else dim
    if size < 1:
        raise ConfigError(f"--dim must be at least 1, got {size}")
    written = Written(
        Path(f"{name}.yaml"), Path(f"{re.sub(r'[^A-Za-z0-9]', '_', name)}_problem.py")
    )
    for path in (written.study, written.problem):
        if path.exists():
            raise ConfigError(f"{path} exists and is not overwritten; choose another name")
    found = None if function is None else find_function(function)
    written.problem.write_text(_problem_text(name, size, written, found), encoding="utf-8")
    written.study.write_text(_study_text(name, size, written), encoding="utf-8")
    return written


def _require_new(name: str) -> None:
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"the name of a study must be letters, digits, '-', '_' and '.', got {name!r}; "
            "its files are written to the current folder"
        )
    if name in PROBLEMS or name in shipped_studies():
        raise ConfigError(f"zotune has a study or a problem {name!r}; choose another name")


def _study_text(name: str, dim: int, written: Written) -> str:
    largest = min(dim, LARGEST_BLOCK)
    blocks = sorted({1, -(-largest // 4), largest})
    budget, trials = STEPS * (largest + 1), len(blocks) * len(ESTIMATORS)
    return STUDY.format(
        name=name if yaml.safe_load(name) == name else json.dumps(name),
        command=written.command,
        problem=written.problem,
        dim=dim,
        trials=trials,
        replicates=REPLICATES,
        total=trials * REPLICATES * budget,
        budget=budget,
        estimators=", ".join(ESTIMATORS),
        blocks=blocks,
    )


def _problem_text(name: str, dim: int, written: Written, function: UserFunction | None) -> str:
    takes_tensors = function is not None and function.takes_tensors
    imports = ["import zotune"] if function else ["import numpy as np", "import zotune"]
    return PROBLEM.format(
        name=name,
        command=written.command,
        imports="\n".join(imports if function is None else _with_function(function, imports)),
        example=EXAMPLE if function is None else "",
        dim=dim,
        summary="The function f above." if function is None else _summary(function),
        array="" if takes_tensors else '\n        array="numpy",',
    )


def _summary(function: UserFunction) -> str:
    return f"{function.name} of {function.file.name}."


def _with_function(function: UserFunction, others: list[str]) -> list[str]:
    """Import lines for a function in the same folder as the problem file, or in one below it."""
    named = function.name if function.name == "f" else f"{function.name} as f"
    line = f"from {function.file.stem} import {named}"
    folder = function.file.parent
    if folder == Path():
        return [*others, "", line]
    path = f'sys.path.insert(0, str(Path(__file__).parent / "{folder.as_posix()}"))'
    return ["import sys", "from pathlib import Path", "", *others, "", path, line]
