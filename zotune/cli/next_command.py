"""Suggested commands after a launch, ready to be pasted."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from zotune.callbacks.stores import without_credentials
from zotune.cli.run_request import RunRequest, kept_under
from zotune.cli.summary import Summary
from zotune.core.folders import from_here
from zotune.core.names import DIVERGED
from zotune.core.ranking import ABOVE
from zotune.objectives import PROBLEMS
from zotune.study.launch import Launch
from zotune.study.model import STORAGE, Study
from zotune.study.points import over_weights
from zotune.study.running import STORE
from zotune.study.studyfile import StudyError, shipped_studies

RAISED = re.compile(r"((?:\w+\.)*)([A-Za-z_]\w*):")
"""The type of an exception, with its module, at the start of its text."""
BUGS = {"AttributeError", "ImportError", "ModuleNotFoundError", "NameError", "TypeError"}
"""Exceptions that indicate a bug; as every point raises them, ``failures`` would not help."""


def rejecting(request: RunRequest, summary: Summary) -> str:
    """A hint to use ``failures`` if the user's function has raised; else empty."""
    found = [RAISED.match(trial.error) for trial in summary.failed] if request.imports else []
    foreign = [one[2] for one in found if one and not one[1].startswith(("zotune.", "ray."))]
    raised = sorted({name for name in foreign if name not in BUGS})
    if not raised:
        return ""
    named = f"({', '.join(raised)}{',' * (len(raised) == 1)})"
    return (
        f"if the function fails at some points, zotune.objective(…, failures={named}) in "
        f"{' or '.join(request.imports)} rejects them and the trial goes on"
    )


def next_command(request: RunRequest, summary: Summary) -> str:
    """The suggested command: the study in full size, smaller or tuned steps, or the best result."""
    outcome, words = summary.outcome, ["zotune", "run", request.study, *_imports(request)]
    if request.smoke:
        return f"{shlex.join(words)}  # the study at its full size"
    if smaller := _smaller_steps(summary):
        given = [s for s in request.settings if not s.startswith(("space.eta=", "fixed.eta="))]
        words += [word for setting in [*given, smaller] for word in ("--set", setting)]
        return f"{shlex.join(words)}  # every trial ended above its start: smaller steps"
    if PROBLEMS[outcome.launch.study.problem["name"]].settings is not None:
        taken = ["zotune", "export", str(from_here(outcome.launch.folder)), "-o", "model"]
        return f"{shlex.join(taken)}  # the best trial's model, for {loaders(outcome.launch.study)}"
    given = [word for setting in request.settings for word in ("--set", setting)]
    study, tuned = outcome.launch.study, f"{outcome.launch.study.name}-tuned"
    if "eta" not in study.searched and tuned in shipped_studies():
        words[2] = tuned
        return f"{shlex.join([*words, *given])}  # whether tuned steps turn it around"
    if "eta" not in study.searched and isinstance(study.space, dict):
        steps = ",".join(f"{factor * (study.fixed.get('eta') or 1):g}" for factor in (0.5, 1, 2, 4))
        searched = [*words, *given, "--set", f"space.eta=[{steps}]"]
        return f"{shlex.join(searched)}  # whether a tuned step turns it around"
    end = "weights()" if over_weights(study.problem) else "best_x"
    folder = str(from_here(outcome.launch.folder))
    point = f"import zotune; print(zotune.load_run({json.dumps(folder)}).{end})"
    return f"{shlex.join(['python', '-c', point])}  # the best trial's point"


def _smaller_steps(summary: Summary) -> str:
    """A tenth and a hundredth of the smallest step, if no trial has ended below its start."""
    trials = [trial for trial in summary.trials if trial.has_loss]
    if not trials or not all(ABOVE in t.remarks or DIVERGED in t.status for t in trials):
        return ""
    tried = summary.outcome.launch.study.searched.get("eta", [])
    if not isinstance(tried, list) or not all(isinstance(eta, int | float) for eta in tried):
        return ""
    least = min(tried, default=0)
    return f"space.eta=[{least / 100:g},{least / 10:g}]" if least > 0 else ""


def loaders(study: Study) -> str:
    """The functions that load exports of a study's trials."""
    problems = [study.configuration(point).problem for point in study.trials]
    every = [PROBLEMS[problem["name"]].settings_of(problem) for problem in problems]
    return " or ".join(sorted({settings.load_with for settings in every if settings is not None}))


def _imports(request: RunRequest) -> list[str]:
    return [word for place in request.imports for word in ("--import", place)]


def resume_command(request: RunRequest, launch: Launch) -> str:
    """The command that continues a launch."""
    words = ["zotune", "run", *_study_words(request, launch), *_imports(request)]
    if request.storage != Path(STORAGE):
        words += ["--storage", str(request.storage)]
    if request.address:
        words += ["--address", request.address]
    if request.tracking_uri:
        store = str(launch.notes.get(STORE, request.tracking_uri))
        words += ["--tracking-uri", without_credentials(store)]
    return shlex.join([*words, "--resume", launch.id])


def _study_words(request: RunRequest, launch: Launch) -> list[str]:
    """The study argument as typed, unless its launches have another name."""
    try:
        typed = kept_under(request) == launch.study.name
    except StudyError:
        typed = False
    smoke = ["--smoke"] if request.smoke else []
    return [request.study, *smoke] if typed else [launch.study.name]
