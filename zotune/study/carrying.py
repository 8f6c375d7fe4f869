"""Continue an earlier launch with a larger budget or more trials.

This makes a new launch; the old one is not changed. Each trial that the old launch had, too, starts
from its newest checkpoint there, with its spent budget, so that nothing is evaluated twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotune._lazy import LazyModule
from zotune.core.names import STATE_FILE
from zotune.core.settings import setting
from zotune.errors import CheckpointError, ConfigError
from zotune.methods import AUTO
from zotune.objectives import complete_problem
from zotune.study.model import Study
from zotune.study.racing import AUTO_SETTINGS
from zotune.study.studyfile import GRID, RACE

if TYPE_CHECKING:
    from zotune.runs import checkpoint as checkpoints
    from zotune.runs import run as runs
    from zotune.runs.run import Run
else:  # most launches do not continue another one
    checkpoints = LazyModule("zotune.runs.checkpoint")
    runs = LazyModule("zotune.runs.run")


def carried(folder: Path, study: Study) -> dict[str, str]:
    """The newest whole checkpoint of each trial in a launch's folder, by the trial's identity.

    Args:
        folder: the folder of the launch.
        study: the new study, for defaults of problem options that trials omitted.
    """
    found: dict[str, str] = {}
    for trial in sorted({path.parent for path in folder.glob("*/checkpoint_*")}):
        for checkpoint in sorted(trial.glob("checkpoint_*"), reverse=True):
            try:
                config = runs.load_run(checkpoint).config
            except CheckpointError:
                continue  # truncated by a crash; the one before it is complete
            problem = complete_problem({**study.config["problem"], **config.problem})
            identity = config.model_copy(update={"problem": problem}).identity
            newest = checkpoint / STATE_FILE
            before = found.get(identity)  # Tune had lost the trial, and started it again
            if before is None or checkpoints.charged_in(newest) > checkpoints.charged_in(
                Path(before)
            ):
                found[identity] = str(newest)
            break
    return found


BEST = "best"
"""The value of ``--only``: the trial of a launch with the lowest loss."""


def extended(
    study: Study,
    budget: int | None = None,
    trials: int | None = None,
    total: int | None = None,
) -> Study:
    """The study with a larger budget or more trials."""
    changes: dict[str, Any] = {}
    if total is not None:
        if study.search.algorithm == RACE:
            raise ConfigError(
                "the shares of a race follow from its total, and cannot be changed afterwards; "
                f"continue its winner: --only {BEST} --budget N"
            )
        if total <= (study.total or 0):
            raise ConfigError(
                f"--total must be more than the {study.total} that the launch had, got {total}"
            )
        changes["total"] = total
    if budget is not None:
        if budget <= study.budget:
            raise ConfigError(
                f"--budget must be more than the {study.budget} that the launch had, got {budget}"
            )
        changes["budget"] = budget
    if trials is not None:
        if study.search.algorithm in (GRID, RACE):
            raise ConfigError(
                "--trials is for random and optuna searches; a grid or a race has as many as it "
                "has points"
            )
        if trials <= (study.search.trials or 0):
            raise ConfigError(
                f"--trials must be more than the {study.search.trials} that the launch had, "
                f"got {trials}"
            )
        changes["search"] = {"algorithm": study.search.algorithm, "trials": trials}
    return Study(**study.to_dict() | changes)


def only_best(study: Study, best: Run, budget: int | None) -> Study:
    """A study of the best trial of a launch only, with a larger budget.

    Args:
        study: the study of the launch.
        best: the run of that trial.
        budget: the new budget of the trial, per replicate.
    """
    if budget is None or budget <= best.spent:
        raise ConfigError(
            f"--only {BEST} needs --budget, more than the {best.spent} that the best trial has "
            f"spent, got {budget}"
        )
    config = best.config.model_dump()
    joined = best.config.method == AUTO
    chosen = AUTO_SETTINGS if joined else {}  # in a race it overrides fixed settings
    data = study.to_dict() | {
        "budget": budget,
        "report_every": study.reports_at,
        "space": {k: [v] for k in study.searched if (v := setting(config, k)) is not None},
        "fixed": study.fixed | {key: chosen[key] for key in chosen if key not in study.searched},
        "search": {"algorithm": GRID},
    }
    dropped = ("total", "scheduler", "within", "claims", "tuning")
    return Study(**{key: value for key, value in data.items() if key not in dropped})


def points_of(study: Study, known: Mapping[str, str]) -> list[dict[str, Any]]:
    """The points of carried trials in the space, as initial points for a searcher."""
    configs = (json.loads(key) for key in known)
    return [{axis: setting(config, axis) for axis in study.axes} for config in configs]
