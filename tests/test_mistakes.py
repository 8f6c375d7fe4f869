"""Fifty mistakes of newcomers: one clear line each, before anything is evaluated or started."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import zotune
from zotune.cli import main


def f(x: Any) -> Any:
    return (x**2).sum()


def minimize(*start: Any, **settings: Any) -> Callable[[], Any]:
    """A call that minimises f from two ones, unless said otherwise."""
    function, x0 = start or (f, [1.0, 1.0])
    return lambda: zotune.minimize(function, x0, **({"budget": 10} | settings))


def study(**changes: Any) -> Callable[[], Any]:
    plain = {"name": "mine", "problem": "quadratic", "budget": 100, "space": {"q": [1]}}
    return lambda: zotune.Study(**(plain | changes))


def asked(**told: Any) -> Callable[[], Any]:
    minimizer = zotune.Minimizer([1.0, 2.0], budget=20)
    minimizer.ask()
    return lambda: minimizer.tell(**told)


LOCK = Lock()
"""Stands for what no other process can have: a lock, a connection, an open file."""
BY_HAND = {"estimator": "avg", "q": 1, "update": "sgd"}
EXTENT = "loguniform of eta must be [low, high], two numbers above 0, got [0, 1]"
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "no start": (lambda: zotune.minimize(f, budget=10), "give x0, or wrap it with"),
    "a budget of nothing": (minimize(budget=0), "budget must be greater than or equal to 1, got 0"),
    "half an evaluation": (minimize(budget=10.5), "budget must be a whole number, got 10.5"),
    "SciPy's pairs in two dimensions": (
        minimize(f, [1.0, 1.0], bounds=[(-2, 2), (0, 4)]),
        "give bounds=([-2, 0], [2, 4])",
    ),
    "no budget": (minimize(budget=None), "budget must be a whole number, got None"),
    "a target in quotes": (minimize(target="1"), "target must be a number, got '1'"),
    "seconds in quotes": (minimize(seconds="1"), "seconds must be a number of at least 0, got '1'"),
    "a list of metrics": (minimize(metrics=[f]), "metrics must be functions by their names, such"),
    "a budget in quotes": (minimize(budget="10"), "budget must be a number, got '10'"),
    "the value, not the function": (minimize(3.0, [1.0]), "must be an Objective, a problem's name"),
    "a function of vectors": (minimize(lambda x: x, [1.0, 2.0]), "returns one number, got shape"),
    "no return": (minimize(lambda x: None, [1.0]), "returns a number, got NoneType"),
    "text returned": (minimize(lambda x: "1", [1.0]), "returns a number, got str: '1'"),
    "NaN in the start": (minimize(f, [float("nan")]), "x0 must be finite"),
    "an empty start": (minimize(f, []), "must be a whole number of at least 1, got 0"),
    "text for a start": (minimize(f, "start"), "x0 must be a vector"),
    "NaN at the start": (minimize(lambda x: float("nan"), [1.0]), "choose another x0"),
    "bounds the wrong way": (minimize(bounds=(2, 0)), "with low below high everywhere"),
    "SciPy's bounds": (minimize(bounds=[(0, 2)] * 3), "written as (all the low ends, all the high"),
    "a misspelled estimator": (minimize(estimator="algin"), "did you mean 'align'?"),
    "a misspelled setting": (minimize(estimater="align"), "did you mean 'estimator'?"),
    "a learning rate": (minimize(lr=0.1), "did you mean 'eta'?"),
    "SciPy's maxiter": (minimize(maxiter=10), "did you mean 'budget'"),
    "SciPy's tol": (minimize(tol=1e-6), "a run ends at its budget, at target"),
    "CMA-ES's sigma0": (minimize(sigma0=0.5), "did you mean 'scale'?"),
    "a gradient": (minimize(jac=f), "no gradient is used"),
    "no queries": (minimize(q=0), "q must be a number from 1 on, 'auto', or a rule, got 0"),
    "too many queries": (
        minimize(budget=100, estimator="align", q=5, update="sgd", step="theory"),
        "q must be at most the dimension for estimator 'align', got q=5 with d=2",
    ),
    "no step size": (minimize(**BY_HAND, step="constant"), "needs a step size, got eta=None"),
    "a step uphill": (minimize(**BY_HAND, step="constant", eta=-1), "eta must be greater than 0"),
    "a radius of nothing": (minimize(mu=0), "mu must be greater than 0, got 0"),
    "a misspelled problem": (minimize("quadratc", None), "did you mean 'quadratic'?"),
    "an option it has not": (
        minimize({"name": "quadratic", "dimension": 3}, None),
        "has no option 'dimension' (did you mean 'dim'?)",
    ),
    "failures by name": (minimize(failures="OSError"), "failures must be types of exceptions"),
    "a failure itself": (minimize(failures=(OSError(),)), "failures must be types of exceptions"),
    "a folder as checkpoint": (minimize(checkpoint="."), "checkpoint must be a file"),
    "no values told": (asked(values=[]), "tell needs one value a point: 1 points, got 0 values"),
    "a point not asked for": (asked(values=[1.0], ids=[999]), "point 999 is not asked for now"),
    "a file that is not there": (
        lambda: zotune.Minimizer.load("nothing.safetensors"),
        "should be a file that save wrote",
    ),
    "a run that is not there": (
        lambda: zotune.load_run("results/nothing"),
        "give a launch's or a trial's folder",
    ),
    "a misspelled study": (
        lambda: zotune.load_study("strongly-convexx"),
        "did you mean 'strongly-convex'?",
    ),
    "a study file that is not there": (
        lambda: zotune.load_study("nofile.yaml"),
        "no study file at nofile.yaml; `zotune list studies` shows",
    ),
    "a scheduler not here": (study(scheduler="hyperband"), "known: asha, median, none"),
    "random without trials": (
        study(space={"eta": {"uniform": [1, 2]}}, search={"algorithm": "random"}),
        "random search needs trials",
    ),
    "a logarithm of 0": (
        study(space={"eta": {"loguniform": [0, 1]}}, search={"algorithm": "random", "trials": 2}),
        EXTENT,
    ),
    "a change without =": (
        lambda: zotune.load_study("smoke", settings=["budget"]),
        "write it as path=value",
    ),
    "a regime not known": (
        lambda: zotune.plan(10, 100, regime="linear"),
        "known: convex, nonconvex, stochastic, strongly-convex",
    ),
    "a taken name": (
        lambda: zotune.estimators.register("avg", formula="")(f),
        "is registered already; choose another name",
    ),
    "a complex start": (minimize(f, [1j]), "x0 must be a vector"),
    "how many workers, to worker": (
        minimize(workers=1, worker=2),
        "the number of workers is workers=",
    ),
    "a target of NaN": (minimize(target=float("nan")), "target must be a number, got nan"),
    "a checkpoint of True": (minimize(checkpoint=True), "must be the name of a file, such as"),
    "a report to a number": (minimize(on_report=3), "on_report must be a function of a row, got 3"),
    "blanks in a metric": (minimize(metrics={"my error": f}), "a name of letters, digits and _"),
    "a metric called loss": (minimize(metrics={"loss": f}), "give another, such as my_loss"),
    "SciPy's callback": (minimize(callback=print), "did you mean 'on_report'?"),
    "SciPy's args": (minimize(args=(1,)), "with data=…, the function is called fn(x, data)"),
    "SciPy's options": (minimize(options={}), "give each option by its own name"),
    "SciPy's constraints": (minimize(constraints=[]), "there are bounds=… only"),
    "integers": (minimize(integers=[0]), "round them in the function"),
    "starts": (minimize(starts=5), "a run has one start"),
    "known values": (minimize(evaluated=([], [])), "give the best of them as x0"),
    "joblib's n_jobs": (minimize(n_jobs=2), "did you mean 'workers'?"),
    "Optuna's timeout": (minimize(timeout=3), "did you mean 'seconds'?"),
    "a misspelled checkpoint": (minimize(chekpoint="a"), "did you mean 'checkpoint'?"),
    "a verbose run": (minimize(verbose=True), "did you mean 'progress'?"),
    "a Minimizer of a function": (
        lambda: zotune.Minimizer(f, budget=10),
        "x0 must be a vector",
    ),
    "a Minimizer with a target": (
        lambda: zotune.Minimizer([1.0], budget=10, target=1),
        "a Minimizer takes no target: look at result.best_loss",
    ),
    "a Minimizer with workers": (
        lambda: zotune.Minimizer([1.0], budget=10, workers=2),
        "all points of one ask can be evaluated side by side",
    ),
    "a Minimizer with failures": (
        lambda: zotune.Minimizer([1.0], budget=10, failures=OSError),
        "tell inf or NaN for an evaluation that has failed",
    ),
    "text told": (asked(values=["a"]), "tell needs numbers, one a point, got ['a']"),
    "no run": (lambda: zotune.load_run(None), "load_run takes a result of Tune, a checkpoint"),
    "a study of a mapping": (
        lambda: zotune.load_study({"name": "a"}),  # type: ignore[arg-type]
        "zotune.Study(**mapping)",
    ),
    "a function as problem": (study(problem=f), "register it with @zotune.objectives.register"),
    "points changed in a batch": (
        minimize(
            zotune.objective(lambda x: x.sub_(1).square().sum(-1), 2, batched=True), [1.0, 2.0]
        ),
        "a batched objective must not change its argument",
    ),
    "a lock in a function for workers": (
        minimize(lambda x: f(x) if LOCK else 0, [1.0], workers=2),
        "cannot be sent to a worker: cannot pickle '_thread.lock' object; open files, connections",
    ),
    "a lock in a trainable": (
        lambda: zotune.trainable(lambda x: f(x) if LOCK else 0, dim=2),
        "cannot be sent to a worker: cannot pickle '_thread.lock' object; open files, connections",
    ),
    "a measure that no run has": (
        lambda: minimize()().plot(measure="best-loss"),
        "measure 'best-loss' is not known (did you mean 'best_loss'?); known: ",
    ),
    "a gap to an unknown minimum": (
        lambda: minimize()().plot(measure="gap"),
        "measure 'gap' is not known; known: best_loss, ",
    ),
    "a figure as text": (
        lambda: minimize()().plot().save_as("curve.txt"),
        "a figure's name must end in .png, .svg, .pdf or another kind that matplotlib writes",
    ),
    "a function of x and data": (
        minimize(lambda x, data: 0.0, [1.0]),
        "must take one vector: missing a required argument: 'data'; with data=…, it is called fn(x",
    ),
    "a function of nothing": (minimize(lambda: 0.0, [1.0]), "must take one vector: too many pos"),
    "a lowest point for the lowest value": (
        lambda: zotune.objective(f, 2, optimum=[0, 0]),  # type: ignore[arg-type]
        "optimum must be a number, the lowest value of the function, got [0, 0]",
    ),
    "points of whole numbers": (
        lambda: zotune.objective(f, 2, dtype=torch.int64),
        "dtype must be one of torch.float16, torch.bfloat16, torch.float32 and torch.float64, got",
    ),
    "None told": (asked(values=[None]), "tell needs numbers, one a point, got [None]"),
    "a trainable's budget in quotes": (
        lambda: zotune.trainable(f, dim=2, budget="10"),
        "budget must be a number, got '10'",
    ),
    "an experiment by its number": (
        lambda: zotune.callbacks.MLflowCurves(experiment=3),  # type: ignore[arg-type]
        "experiment must be a name, got 3",
    ),
    "a decorator without a name": (
        lambda: zotune.objectives.register(f),  # type: ignore[arg-type]
        "the name of a problem must be letters, digits, '-', '_' and '.', got <function f",
    ),
    "blanks in the name of an estimator": (
        lambda: zotune.estimators.register("my own", formula="")(f),
        "the name of an estimator must be letters, digits, '-', '_' and '.', got 'my own'",
    ),
    "an estimator of v alone": (
        lambda: zotune.estimators.register("alone", formula="")(f),
        "estimator 'alone' must be a function of v and block: too many positional arguments",
    ),
    "a folder for a study": (lambda: zotune.load_study("."), "a study is a name or a .yaml file"),
    "a capital letter": (minimize(update="Adam"), "did you mean 'adam'?"),
    "another spelling of evaluations": (minimize(count="Evaluations"), "mean 'evaluations'?"),
    "a name without quotes": (study(name=12), "name must be text, got 12; put it in quotes"),
    "bounds of another dimension": (
        study(problem={"name": "quadratic", "dim": 10}, fixed={"bounds": [[0, 0], [1, 1]]}),
        "bounds must be one number or 10, one a coordinate, got 2",
    ),
    "a list of metrics for a trainable": (
        lambda: zotune.trainable(f, dim=2, metrics=[f]),  # type: ignore[arg-type]
        "metrics must be functions by their names, such",
    ),
    "failures by name for a trainable": (
        lambda: zotune.trainable(f, dim=2, failures="OSError"),  # type: ignore[arg-type]
        "failures must be types of exceptions",
    ),
    "metrics beside an objective": (
        lambda: zotune.trainable(zotune.objective(f, 2), metrics={"far": f}),
        "give it to zotune.objective(fn, dim, metrics=…)",
    ),
    "a target for a trainable": (
        lambda: zotune.trainable(f, dim=2, budget=10, target=0.1),
        "'target' is not a setting of a trial; give it to zotune.minimize(…, target=…)",
    ),
    "a setting below the problem": (
        study(problem={"name": "quadratic", "mu": 0.1}),
        "has no option 'mu', mu is a setting: write it under fixed",
    ),
    "the budget below the problem": (
        study(problem={"name": "quadratic", "seed": 1, "budget": 5}),
        "budget is a key of the study: write it beside problem",
    ),
    "a trainable without dim": (lambda: zotune.trainable(f, budget=10), "give dim=…"),
}
COMMANDS = {
    "run nothing": "study 'nothing' is not known",
    "run typo": "there is a file typo.yaml; give that",
    "run syntax.py": "a study is a .yaml file, got syntax.py; `zotune init NAME --function",
    "run smoke --set q=1,10": "several are searched with space.q=[1,10]",
    "list study": "kind 'study' is not known (did you mean 'studies'?)",
    "run bad.yaml": "bad.yaml:3: this is not YAML",
    "run typo.yaml": "typo.yaml:3: 'buget' is not a key of a study (did you mean 'budget'?)",
    "run smoke --set budget=none": "--set budget=none: budget must be a number, got 'none'",
    "run smoke --import nofile.py": "--import nofile.py: there is no such file",
    "run smoke --import syntax.py": "--import syntax.py failed: SyntaxError",
    "run smoke --resume nothing": "no launch 'nothing' of smoke",
    "run smoke --budget 5": "need --resume; a new launch takes --set budget=…",
    "run smoke --tracking-uri file:///store": "use sqlite:///mlflow.db, an http(s) server",
    "run .": "a study is a name or a .yaml file, got the folder .",
    "run latin.yaml": "latin.yaml is not text in UTF-8 (byte 8); save it as such",
    "run narrow.yaml": "narrow.yaml:5: bounds must be one number or 10, one a coordinate, got 2",
    "run capital.yaml": "capital.yaml:5: scheduler 'ASHA' is not known (did you mean 'asha'?)",
    "run smoke --import folder": "--import folder is a folder; give a .py file in it",
    "report nothing": "there is no tracking store at",
    "ui nothing": "run a study here first, or give --tracking-uri",
    "export nothing -o model": "give a launch's or a trial's folder",
    "init 'two words'": "must be letters, digits",
    "init mine --function nofile.py:f --dim 2": "there is no file",
    "plan --dim 10 --budget 9 --count evals": "did you mean 'evaluations'?",
    "compare --budget 10 -o x.txt": "must end in .png, .svg, .pdf or .jpg",
    "rnu smoke": "No such command 'rnu'",
}


def test_there_are_fifty_of_them() -> None:
    assert len(CALLS) + len(COMMANDS) >= 50


@pytest.mark.parametrize("mistake", CALLS)
def test_a_call_that_is_wrong_is_answered_with_one_line(mistake: str) -> None:
    call, expected = CALLS[mistake]
    with pytest.raises(zotune.ZotuneError, match=re.escape(expected)) as raised:
        call()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_that_is_wrong_starts_nothing_and_says_why(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "bad.yaml").write_text("name: mine\nproblem: {name: quadratic\nbudget: 10\n")
    (tmp_path / "typo.yaml").write_text("name: m\nproblem: quadratic\nbuget: 1\nspace: {q: [1]}\n")
    (tmp_path / "syntax.py").write_text("def f(:\n")
    (tmp_path / "latin.yaml").write_bytes(b"name: m\xff\n")
    plain = "name: m\nproblem: {name: quadratic, dim: 10}\nbudget: 100\nspace: {q: [1]}\n"
    (tmp_path / "narrow.yaml").write_text(f"{plain}fixed: {{bounds: [[0, 0], [1, 1]]}}\n")
    (tmp_path / "capital.yaml").write_text(f"{plain}scheduler: ASHA\n")
    (tmp_path / "folder").mkdir()
    before = set(tmp_path.iterdir())
    done = CliRunner().invoke(main, shlex.split(line))
    assert done.exit_code == 2
    assert COMMANDS[line] in done.output
    assert "Traceback" not in done.output
    assert set(tmp_path.iterdir()) == before
